"""The machine-code back end: from a program to LLVM's text, compiled in memory by llvmlite (extra ``fast``)."""
