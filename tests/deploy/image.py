# SPDX-License-Identifier: GPL-2.0-or-later
"""An OCI image archive, read as a container engine reads it."""
import gzip
import hashlib
import io
import json
import tarfile


class Image:
    """names, manifest, config, files: {path: TarInfo}; every digest and size is verified."""

    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.parts = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
        assert json.loads(self.parts["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
        (entry,) = json.loads(self.parts["index.json"])["manifests"]
        self.names, self.digest = entry["annotations"], entry["digest"]
        self.manifest = json.loads(self.blob(entry))
        self.config = json.loads(self.blob(self.manifest["config"]))
        (layer,) = self.manifest["layers"]
        self.layer = gzip.decompress(self.blob(layer))
        assert self.config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(self.layer).hexdigest()]
        with tarfile.open(fileobj=io.BytesIO(self.layer)) as tar:
            self.files = {m.name: m for m in tar}

    def blob(self, descriptor):
        data = self.parts["blobs/sha256/" + descriptor["digest"].split(":")[1]]
        assert len(data) == descriptor["size"]
        assert "sha256:" + hashlib.sha256(data).hexdigest() == descriptor["digest"]
        return data

    def read(self, path):
        with tarfile.open(fileobj=io.BytesIO(self.layer)) as tar:
            return tar.extractfile(path).read()

    def extract(self, folder):
        with tarfile.open(fileobj=io.BytesIO(self.layer)) as tar:
            tar.extractall(folder)
