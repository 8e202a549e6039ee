"""The rank mode "threads": the ranks of a test are threads of the process that runs it."""
