"""What tests share."""

import pytest

import corun


@pytest.fixture(scope="session")
def four():
    """Four programs that share the caches of a small machine."""
    return ["xz", "sqlite3", "sort", "flac"]


@pytest.fixture(scope="session")
def comparison(four):
    """These four under two policies and two seeds."""
    return corun.compare(four, policies=["linux-default", "dio-2010"], seeds=2)
