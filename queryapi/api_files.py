"""A result as files: the hashed bytes themselves, and other formats made from them [interfaces]."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

from django.http import FileResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from queryapi import api_docs, downloads, queries
from queryapi.api import JSON, immutable, is_fresh, not_modified
from queryapi.contract.descriptor_reader import read_recorded
from queryapi.contract.digest import ResultDigest
from queryapi.contract.rows import RowShape
from queryapi.models import Execution
from recorder.api_view import ApiView, check_parameters
from recorder.auth import READERS, caller_of
from recorder.codes import RecordCode, RecordError

FORMATS: Final = {
    "json": JSON,
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}


def _file(path: Path, content_type: str, etag: str, sha256_hex: str | None = None) -> FileResponse:
    response = FileResponse(path.open("rb"), content_type=content_type)
    return immutable(response, etag, None if sha256_hex is None else bytes.fromhex(sha256_hex))


class Rows(ApiView):
    """rows.json: the exact bytes that rows_hash covers."""

    roles = READERS
    operations: ClassVar = {"GET": api_docs.ROWS}

    def get(self, request: Request, result_id: str) -> HttpResponseBase:
        """`sha256sum` of the body is rows_hash."""
        check_parameters(request)
        execution = queries.find(caller_of(request), result_id)
        digest = queries.digest_of(execution)
        etag = f'"{digest.rows_hash}"'
        if is_fresh(request, etag):
            return not_modified(etag)
        return _file(queries.folder_of(execution).rows, JSON, etag, digest.rows_hash)


class Evidence(ApiView):
    """The evidence summary: the exact bytes that evidence_hash covers."""

    roles = READERS
    operations: ClassVar = {"GET": api_docs.EVIDENCE}

    def get(self, request: Request, result_id: str) -> HttpResponseBase:
        """`sha256sum` of the body is evidence_hash."""
        check_parameters(request)
        execution = queries.find(caller_of(request), result_id)
        digest = queries.digest_of(execution)
        etag = f'"{digest.evidence_hash}"'
        if is_fresh(request, etag):
            return not_modified(etag)
        return _file(queries.folder_of(execution).evidence, JSON, etag, digest.evidence_hash)


class Download(ApiView):
    """Rows as a file to keep, with the digest in a header beside them."""

    roles = READERS
    operations: ClassVar = {"GET": api_docs.DOWNLOAD}

    def get(self, request: Request, result_id: str) -> HttpResponseBase:
        """An attachment of a fixed type; nothing in it is ever shown as a page."""
        check_parameters(request, "format")
        name = request.query_params.get("format", "json")
        if name not in FORMATS:
            message = f"format is one of {', '.join(FORMATS)}."
            raise RecordError(RecordCode.INVALID_PARAMETER, message)
        execution = queries.find(caller_of(request), result_id)
        digest = queries.digest_of(execution)
        etag = f'"{digest.rows_hash}-{name}"'
        if is_fresh(request, etag):
            return not_modified(etag)
        response = _download(execution, digest, name, etag)
        response["Content-Disposition"] = f'attachment; filename="{result_id}.{name}"'
        response["Veen-Result-Digest"] = digest.canonical().decode()
        return response


def _download(execution: Execution, digest: ResultDigest, name: str, etag: str) -> HttpResponseBase:
    folder = queries.folder_of(execution)
    if name == "json":
        return _file(folder.rows, FORMATS[name], etag, digest.rows_hash)
    descriptor = read_recorded(execution.descriptor.encode())
    if name == "parquet":
        return _file(downloads.parquet(folder, descriptor, digest), FORMATS[name], etag)
    pieces: Iterator[bytes] = (
        downloads.ndjson(folder)
        if name == "ndjson"
        else downloads.csv_text(folder, RowShape.of(descriptor).names)
    )
    return immutable(StreamingHttpResponse(pieces, content_type=FORMATS[name]), etag)
