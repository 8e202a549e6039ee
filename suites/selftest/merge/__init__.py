"""Tests of one run that is made of the directories of many."""
