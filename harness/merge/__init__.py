"""One run of many: shards of a run, and further attempts at them, become one journal and one set of reports.

``parts`` reads the directories, ``agreement`` says whether they are of one run, ``merged`` which results
count and what is absent, ``write`` makes the files of the whole, and ``cli`` is the command. Imports no
torch.
"""
