"""The reports of a run: consoles, JUnit, HTML, trace, GitHub, and the text of a multi-rank failure.

Where to change what:

    base           the interface of all reporters, and the events that the session tells them
    console        chooses between the two consoles: ``live`` on a terminal, ``plain`` as lines
    console_lines  the lines that both consoles print about a failure and at the end of a run
    progress       how far a run has come, and the estimate of its end
    summary        the counts and lists of a whole run, which every report is made from
    failure        the text of one multi-rank failure
    activity       what each rank was doing when its test ended
    communication_layout  what stands where in the picture of a failed test's communication, which
                          ``communication_picture`` draws
    junit, html, trace, results, github   one file or page each
    naming, text, files                   test ids, formats, and writing a file whole
"""
