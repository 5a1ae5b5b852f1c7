"""Jobs of the lake over HTTP: how far they are, and a way to stop them [SDR0 3.2].

They are asked for as acts (`lake.seal`, `lake.audit`); the act's id is the job's.
"""

from __future__ import annotations

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from recorder import api_docs, queries, services
from recorder.api_admin import body_of, listed
from recorder.api_view import ApiView, check_parameters
from recorder.auth import ADMINS
from recorder.codes import RecordCode, RecordError
from recorder.models import LakeJob


class LakeJobs(ApiView):
    """Runs of seal and audit."""

    roles = ADMINS
    operations = {"GET": api_docs.LAKE_JOBS}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request) -> Response:
        """The newest first."""
        return listed(request, "lake_jobs", LakeJob.objects.all(), shown_job, is_newest_first=True)


class OneJob(ApiView):
    """One run and how far it is."""

    roles = ADMINS
    operations = {"GET": api_docs.LAKE_JOB}  # noqa: RUF012 - a ClassVar of the base

    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        """By id."""
        check_parameters(request)
        try:
            job = LakeJob.objects.get(pk=job_id)
        except LakeJob.DoesNotExist as missing:
            raise RecordError(RecordCode.NOT_FOUND, "There is no such job.") from missing
        return Response(shown_job(job))


class CancelJob(ApiView):
    """Stop a run."""

    roles = ADMINS
    operations = {"POST": api_docs.CANCEL_LAKE_JOB}  # noqa: RUF012 - a ClassVar of the base

    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        """The job as it is then; one that was over is not changed."""
        check_parameters(request)
        body_of(request)
        try:
            job = services.cancel_job(job_id)
        except LakeJob.DoesNotExist as missing:
            raise RecordError(RecordCode.NOT_FOUND, "There is no such job.") from missing
        return Response(shown_job(job))


def shown_job(job: LakeJob) -> dict[str, object]:
    """A job as the API shows it."""
    return {
        "job_id": str(job.id),
        "kind": job.kind,
        "args": job.args,
        "state": job.state,
        "progress": job.progress,
        "result": job.result,
        "error": job.error or None,
        "created_at": queries.shown_time(job.created_at),
        "finished_at": queries.shown_time(job.finished_at),
    }
