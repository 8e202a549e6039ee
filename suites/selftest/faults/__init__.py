"""Cases that go wrong on purpose, and what runs them and checks that nothing is left of them.

Nothing here is named ``test_*.py``: the modules beside this one run these cases and judge the verdicts.
"""
