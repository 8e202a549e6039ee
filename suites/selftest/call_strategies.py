"""Strategies that draw communication calls, for the tests of everything that carries them."""

from __future__ import annotations

from hypothesis import strategies as st

from harness.communication_call import Call, Kind, Signature

TEXT = st.text(max_size=8)
SECONDS = st.floats(0, 1e6)
RANK = st.integers(0, 2**16)
RANKS = st.lists(RANK, max_size=4).map(tuple)
COUNTS = st.lists(st.integers(-1, 2**40), max_size=4).map(tuple)
NUMBER = st.integers(1, 2**31)

SIGNATURES = st.builds(
    Signature,
    operation=TEXT,
    group=TEXT,
    kind=st.sampled_from(Kind),
    members=RANKS,
    made_at=TEXT,
    default=st.booleans(),
    generation=st.integers(0, 9),
    backend=TEXT,
    reduce_op=TEXT,
    root=st.none() | RANK,
    peer=st.none() | RANK,
    tag=st.integers(0, 2**31),
    tensors=TEXT,
    agreed=TEXT,
    sent=COUNTS,
    received=COUNTS,
    key=TEXT,
    timeout_s=st.none() | SECONDS,
)
CALLS = st.builds(
    Call,
    SIGNATURES,
    sequence=NUMBER,
    number=NUMBER,
    started_s=SECONDS,
    waiting_s=st.none() | SECONDS,
    ended_s=st.none() | SECONDS,
    place=TEXT,
    threads=st.integers(1, 99),
    own_work=st.booleans(),
    unseen=st.booleans(),
    bounded=st.booleans(),
    raised=st.booleans(),
    refused=st.booleans(),
    by_library=st.booleans(),
)
