"""Passes: functions from a Program to a Program that computes the same."""
