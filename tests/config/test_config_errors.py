"""Every folder of tests/config_errors is refused with exactly the faults of its `expected`."""

from pathlib import Path

import pytest

from dynres.config.faults import ConfigError
from dynres.config.load import load

CASES = sorted((Path(__file__).parent.parent / "config_errors").iterdir())


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_bad_input_is_refused_with_every_fault_at_once_in_file_order(folder: Path):
    with pytest.raises(ConfigError) as raised:
        load(folder, "controller", everything=True)
    assert str(raised.value) + "\n" == (folder / "expected").read_text()


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_every_fault_says_where_what_and_what_was_expected_or_got(folder: Path):
    with pytest.raises(ConfigError) as raised:
        load(folder, "controller", everything=True)
    for fault in raised.value.faults:
        assert fault.place is not None
        assert fault.what
        assert fault.expected or fault.got or fault.hint
        assert "\n" not in str(fault)
