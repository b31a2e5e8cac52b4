# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Logs in object storage: an S3 server that runs here (moto's)."""

import gzip
import urllib.request

import nightwatt
import pytest
from conftest import lines

server = pytest.importorskip("moto.server", reason="skipped: moto is not installed")
s3fs = pytest.importorskip("s3fs", reason="skipped: s3fs is not installed")
pytest.importorskip("dask", reason="skipped: dask is not installed")


@pytest.fixture
def bucket():
    moto = server.ThreadedMotoServer("127.0.0.1", 0)
    moto.start()
    host, port = moto.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    options = {
        "key": "testing",
        "secret": "testing",
        "client_kwargs": {"endpoint_url": endpoint},
        "skip_instance_cache": True,
    }
    files = s3fs.S3FileSystem(**options)
    files.call_s3("create_bucket", Bucket="logs")
    for day in range(1, 5):
        files.pipe(f"logs/{day}.log.gz", gzip.compress("".join(lines(1, day, begins_on=day)).encode()))
    yield endpoint, options
    moto.stop()


def test_logs_of_a_bucket_have_the_figures_of_files(bucket, tmp_path):
    _, options = bucket
    for day in range(1, 5):
        (tmp_path / f"{day}.log.gz").write_bytes(gzip.compress("".join(lines(1, day, begins_on=day)).encode()))
    of_files = nightwatt.summarize(sorted(tmp_path.glob("*.gz")))
    of_bucket = nightwatt.dask.summarize("s3://logs/*.gz", storage_options=options)
    assert of_bucket.figures == of_files.figures
    one = nightwatt.analyze("s3://logs/1.log.gz", storage_options=options)
    assert one.policies.to_pydict() == nightwatt.analyze(tmp_path / "1.log.gz").policies.to_pydict()


def test_what_is_not_there_or_not_permitted_is_an_error(bucket):
    endpoint, options = bucket
    with pytest.raises(nightwatt.NotFoundError, match="cannot open log s3://logs/missing.gz"):
        nightwatt.summarize("s3://logs/missing.gz", storage_options=options)
    with pytest.raises(nightwatt.UsageError, match="no log matches s3://logs/none"):
        nightwatt.dask.summarize("s3://logs/none*.gz", storage_options=options)
    # From now on the server checks who asks.
    reset = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
    urllib.request.urlopen(reset).close()
    for function in (nightwatt.summarize, nightwatt.dask.summarize):
        with pytest.raises(nightwatt.DeniedError, match="cannot open log s3://logs/1.log.gz") as raised:
            function("s3://logs/1.log.gz", storage_options=options)
        assert "permissions" in raised.value.hint
