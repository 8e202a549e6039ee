"""What runs in a zygote and in workers forked from it: lists the tests of modules, and runs tests."""
