"""The rank modes "fresh" and "pooled": ranks are processes, made for one test or kept from test to test."""
