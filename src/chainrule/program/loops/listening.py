"""Listening to the user's code while it is traced: which of it runs, and where its loops come round.

Python's trace hook calls us at each call of a function, and at each line of functions that have loops. As long as it is
set, Python runs several times slower, our own code as well. So it is taken off where no code of the user's can run:
while a call of NumPy's functions is recorded (`engine.leaves`), and while a backward pass goes through such calls.

Nothing is heard while a debugger or a coverage tool listens.
"""

import sys
import threading

from chainrule.engine.dispatch import FOREIGN
from chainrule.engine.leaves import LEAVES
from chainrule.program.loops.marks import Mark, Marked, heads, jumps_within_a_line, looked_at, targets
from chainrule.program.places import OURS, users

PER_CALL = sys.version_info < (3, 12)  # later the hook takes longer to set than most calls take


class listening:
    """Context in which a recording is told what runs of the user's code, and of backward jumps in it.

    Afterwards `active` says whether all of it was heard. `on` is whether the hook is set, None at the end; `deaf`
    whether a call is running that runs no code of the user's.
    """

    def __init__(self, recording):
        self.recording = recording
        self.frames = {}  # id of a running frame -> number of the call
        self.calls = 0
        self.entries = {}  # (number of the call, line) -> where the line was reached
        self.running = {}  # number of the call -> {where a loop jumps to: its marks}
        self.on = self.deaf = False
        self.missed = False  # whether some of the user's code may have run unheard

    def __enter__(self):
        self.before = sys.gettrace()
        self.active = self.before is None or isinstance(getattr(self.before, "__self__", None), listening)
        if self.active:
            self.foreign = FOREIGN[0]
            self.recording.listener = self
            self.on = True
            self.hook = self.called
            sys.settrace(self.hook)
        return self

    def __exit__(self, *exc):
        if self.active:
            self.recording.listener = None
            self.missed |= not self.on
            self.hear(False)
            sys.settrace(self.before)
            if self.missed or FOREIGN[0] != self.foreign:
                self.active = False
                self.recording.loops.clear()
            self.on = self.recording = self.hook = None
            self.running, self.entries = {}, {}
        return False

    def hear(self, on):
        """Set the hook, or take it off."""
        self.missed |= self.deaf  # the call has raised an exception, which is still held
        if self.on is not None and on != self.on:
            if self.on:  # Python takes off a hook that fails, at the depth of a recursion say
                self.missed |= sys.gettrace() is not self.hook
            self.on = on
            sys.settrace(self.hook if on else None)

    def called(self, frame, event, arg):
        """Listen to the user's functions that have loops."""
        code = frame.f_code
        if PER_CALL and id(code) in LEAVES:
            self.hear(False)
            self.deaf = True
            return Deaf(self, frame.f_back)
        if code.co_filename in OURS:
            return None
        module = frame.f_globals.get("__name__", "")
        root = module.partition(".")[0]
        if root in ("", "chainrule") or root in sys.stdlib_module_names or not users(code, module):
            return None
        self.calls += 1
        self.recording.codes.setdefault(code, len(self.recording.program.equations))
        self.recording.frames.setdefault(code, frame.f_globals)
        back, first, within = targets(code), heads(code), jumps_within_a_line(code)
        if not back:
            return None
        self.frames[id(frame)] = self.calls

        def line(frame, event, arg):
            """Take note of a backward jump."""
            if event == "line" and self.on:
                where = within.get(frame.f_lasti, frame.f_lasti)
                if where in back:
                    self.mark(frame, where)
                elif frame.f_lineno in first:  # where a loop may begin
                    self.entries[self.frames[id(frame)], frame.f_lineno] = self.here(frame)
            return line

        return line

    def here(self, frame):
        """Return a mark for the place that is reached."""
        symbols, plain = looked_at(frame.f_locals, self.recording)
        return Mark(len(self.recording.program.equations), symbols, plain)

    def mark(self, frame, where):
        """Take note of a backward jump, at the first one also of where the loop was entered."""
        call = self.frames[id(frame)]
        running = self.running.setdefault(call, {})
        for inner in [t for t in running if t > where]:  # begins anew in the next round
            del running[inner]
        if where not in running:
            made = running[where] = Marked(frame.f_code, where)
            self.recording.loops.append(made)
            entry = self.entries.pop((call, frame.f_lineno), None)
            if entry is not None and made.counted:
                made.marks.append(entry)
                self.recording.marked(entry.position, made)
        here = self.here(frame)
        running[where].marks.append(here)
        self.recording.marked(here.position, running[where])


class Deaf:
    """Stands as the trace function of a call that runs no code of the user's; when its frame is gone, we hear again.

    After an exception the frame lives as long as the traceback, and the user's code goes on unheard. That is told by
    where we are then: in the caller, at the call, or in the frame that is just going, called from there.
    """

    __slots__ = ("at", "caller", "listener")

    def __init__(self, listener, caller):
        self.listener, self.caller, self.at = listener, caller, caller.f_lasti

    def __del__(self):
        listener = self.listener
        listener.deaf = False
        if listener.on is False:
            if threading.get_ident() != listener.recording.thread:  # which was given the exception
                listener.missed = True
                return
            if sys._getframe(2) is not self.caller:
                listener.missed |= sys._getframe(1) is not self.caller or self.caller.f_lasti != self.at
            listener.hear(True)
