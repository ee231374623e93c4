"""Files that a form brings: written as they come, cut at their limits, gone unless a statement keeps them (T70)."""

import tempfile
from contextlib import contextmanager, suppress
from io import BytesIO

from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler

from runtime_app import evidence_files, selectors
from runtime_app.errors import InvalidInput, InvalidResponse

ALL = evidence_files.COUNT * evidence_files.SIZE
ROOM = 1024 * 1024  # bytes of a body beside its files


def takes_files(view):
    """Mark a view whose form may bring files: only there is anything of them written, and only for who is signed in."""
    view.takes_files = True
    return view


class Uploads:
    """Choose what becomes of files before anything reads the form: the check of its token does."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        return self.get_response(request)

    def process_view(self, request, view, args, kwargs):
        if getattr(view, "takes_files", False) and request.user.is_authenticated:
            request.upload_handlers = [Written(request)]


class Dropped(FileUploadHandler):
    """Of a form that takes no file nothing is kept but the name under which one came."""

    def receive_data_chunk(self, raw_data, start):
        return None

    def file_complete(self, file_size):
        return UploadedFile(BytesIO(), name=self.file_name, size=0)


class Written(FileUploadHandler):
    def __init__(self, request=None):
        super().__init__(request)
        self.came, self.all = 0, []

    def new_file(self, *args, **kwargs):
        super().new_file(*args, **kwargs)
        self.file = Sent(self.file_name)
        self.all.append(self.file)

    def receive_data_chunk(self, raw_data, start):
        self.came += len(raw_data)
        if self.came > ALL + ROOM:
            for each in self.all:
                each.close()
            raise RequestDataTooBig
        self.file.take(raw_data)

    def file_complete(self, file_size):
        return self.file


class Sent(UploadedFile):
    """One file under way. `wrong`: why it is not kept; then nothing more of it is written."""

    def __init__(self, name: str):
        file = tempfile.NamedTemporaryFile(dir=evidence_files.folder(), prefix="coming-")  # gone when closed
        super().__init__(file, name=name, size=0)
        self.wrong = ""
        if evidence_files.wrong_type(name):
            self.wrong = f"It is none of {', '.join(sorted(evidence_files.TYPES))}."

    def take(self, data: bytes) -> None:
        if self.wrong:
            return
        self.size += len(data)
        if self.size > evidence_files.SIZE:
            self.wrong = f"It is larger than {evidence_files.SIZE // 1024 // 1024} MiB."
            self.file.truncate(0)
        else:
            self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            self.file.write(data)
            self.file.flush()
        except OSError:
            self.wrong = "There is no room to keep it here; tell whoever runs this installation."
            with suppress(OSError):  # it tries once more to write the rest
                self.file.close()


@contextmanager
def kept(request):
    """The files of this form, kept for a statement that is written inside. What none names afterwards is gone."""
    sent = request.FILES.getlist("files")
    if wrong := [each for each in sent if each.wrong]:
        told = " ".join(f"{each.name}: {each.wrong}" for each in wrong)
        large = any(each.size > evidence_files.SIZE for each in wrong)
        refuse = InvalidInput if large else InvalidResponse
        reason = "too_large" if large else None
        raise refuse("Not every file can be kept. Nothing was recorded.", reason=reason, fields={"files": told})
    files = []
    try:
        for each in sent:
            each.file.flush()
            files.append(evidence_files.keep(each.file.name, each.name))
        yield tuple(files)
    finally:
        named = selectors.files_named(each.stored for each in files) if files else set()
        evidence_files.forget(each for each in files if each.stored not in named)
