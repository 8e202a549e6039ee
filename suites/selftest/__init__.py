"""Tests of the harness itself: ``test_<module>.py`` files in the folders of harness/, tools/ and suites/."""
