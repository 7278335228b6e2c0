"""Where the metrics pages are served, or that they are not."""

from pathlib import Path

from cluster import cluster, wait_for

CASE = Path(__file__).parent.parent / "cases" / "xce"


def test_metrics_off_serves_no_page_and_everything_else_works(tmp_path: Path) -> None:
    with cluster(CASE, tmp_path) as c:
        c.start_controller("--metrics", "off")
        c.start_agent("host1", "--metrics", "off")
        wait_for(lambda: c.ask("hosts")["hosts"] == ["host1"])
        assert "metrics" not in c.logs()


def test_a_metrics_address_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    with cluster(CASE, tmp_path) as c:
        done = c.call("controller", "--metrics", "9751")
        assert done.returncode == 2
        assert "expected ADDR:PORT such as 127.0.0.1:9750, or off, got '9751'" in done.stderr
