"""A probe is refused when somebody who is not trusted could change what runs."""

import os

import pytest
from launching import launch, request, shell

from dynres.worker.ownership import UnsafeFile, check

STRANGER = 12345
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of other owners need root")


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o755)
    inner = tmp_path / "probes"
    inner.mkdir(mode=0o755)
    return inner


@pytest.fixture
def probe(folder):
    path = folder / "probe"
    path.write_text("#!/bin/sh\necho 5\n")
    path.chmod(0o755)
    return path


def refusal(path, *arguments, trusted=()):
    with pytest.raises(UnsafeFile) as caught:
        check(str(path), [str(path), *map(str, arguments)], trusted)
    return str(caught.value)


def test_a_probe_of_root_or_of_the_agents_user_is_run(probe):
    check(str(probe), [str(probe)], ())
    os.chown(probe, STRANGER, STRANGER)
    check(str(probe), [str(probe)], [STRANGER])


def test_the_refusal_names_path_owner_and_mode(probe):
    os.chown(probe, STRANGER, 0)
    result = launch(request(str(probe)))
    assert result.status == "refused"
    assert result.reason == (
        f"{probe} (owner uid {STRANGER}, mode 0755): it belongs to somebody who is not trusted"
    )


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_probe_that_others_can_write_is_refused(probe, mode):
    probe.chmod(mode)
    assert refusal(probe) == (
        f"{probe} (owner root, uid 0, mode {mode:04o}): others than its owner can write to it"
    )


def test_a_probe_in_a_folder_that_others_can_write_is_refused(probe, folder):
    folder.chmod(0o777)
    assert refusal(probe).startswith(f"{folder} (owner root, uid 0, mode 0777)")


def test_every_folder_on_the_way_counts(probe, folder):
    folder.parent.chmod(0o775)
    assert refusal(probe).startswith(f"{folder.parent} (")


def test_a_folder_of_a_stranger_is_refused(probe, folder):
    os.chown(folder, STRANGER, 0)
    assert refusal(probe).startswith(f"{folder} (owner uid {STRANGER}")


def test_a_sticky_folder_of_root_will_do(probe, folder):
    folder.chmod(0o1777)
    check(str(probe), [str(probe)], ())


def test_a_sticky_folder_of_somebody_else_will_not(probe, folder):
    folder.chmod(0o1777)
    os.chown(folder, STRANGER, 0)
    assert refusal(probe, trusted=[STRANGER]).startswith(f"{folder} (")


def test_a_link_leads_to_what_is_checked(probe, folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(probe)
    check(str(link), [str(link)], ())
    os.chown(probe, STRANGER, 0)
    assert refusal(link).startswith(f"{probe} (")


def test_a_link_of_a_stranger_in_a_sticky_folder_is_refused(probe, folder):
    folder.chmod(0o1777)
    link = folder / "link"
    link.symlink_to("probe")
    os.chown(link, STRANGER, 0, follow_symlinks=False)
    assert refusal(link).startswith(f"{link} (")


def test_a_relative_link_through_parents_is_followed(probe, tmp_path):
    (tmp_path / "other").mkdir(mode=0o755)
    link = tmp_path / "other" / "link"
    link.symlink_to("../probes/./probe")
    probe.chmod(0o777)
    assert refusal(link).startswith(f"{probe} (")


def test_links_in_a_ring_end_as_a_start_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    result = launch(request(f"{tmp_path}/a"))
    assert (result.status, result.reason) == (
        "start_error",
        f"too many symbolic links: {tmp_path}/a",
    )


def test_an_argument_that_names_a_file_is_checked_too(probe):
    os.chown(probe, STRANGER, 0)
    assert refusal("/bin/sh", probe).startswith(f"{probe} (")
    assert launch(request("/bin/sh", str(probe))).status == "refused"


@pytest.mark.parametrize("argument", ["/no/such/file", "/tmp", "/dev/null", "-v", "relative", "/"])
def test_an_argument_that_names_no_regular_file_is_not(argument):
    check("/bin/sh", ["/bin/sh", argument], ())


def test_allow_unsafe_skips_the_check(probe):
    probe.chmod(0o777)
    result = launch(request(str(probe), allow_unsafe=True))
    assert (result.status, result.stdout) == ("exited", b"5\n")


def test_trusted_owners_are_those_of_the_request(probe):
    os.chown(probe, STRANGER, 0)
    assert launch(request(str(probe), trusted=(STRANGER,))).stdout == b"5\n"


def test_no_check_hinders_an_ordinary_shell():
    assert launch(shell("echo 5")).stdout == b"5\n"
