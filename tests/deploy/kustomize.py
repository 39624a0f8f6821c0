# SPDX-License-Identifier: GPL-2.0-or-later
"""The part of Kustomize that deploy/ uses: resources, patches (strategic merge), ConfigMaps of files, images, namespace."""
import hashlib
import json
import os

import yaml

CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "SecurityContextConstraints"}
FIELDS = {"apiVersion", "kind", "resources", "patches", "configMapGenerator", "images", "namespace"}


def read(path):
    with open(path, encoding="utf-8") as f:
        return list(yaml.safe_load_all(f))


def merge(to, patch):
    """`to` with the fields of `patch`. List elements with a name are merged by it, other lists are replaced."""
    if isinstance(to, dict) and isinstance(patch, dict):
        return {k: merge(to[k], patch[k]) if k in to and k in patch else {**to, **patch}[k] for k in {**to, **patch}}
    if isinstance(to, list) and isinstance(patch, list) and all("name" in x for x in to + patch if isinstance(x, dict)) \
            and all(isinstance(x, dict) for x in to + patch):
        by_name = {x["name"]: x for x in patch}
        names = {x["name"] for x in to}
        return [merge(x, by_name.get(x["name"], {})) for x in to] + [x for x in patch if x["name"] not in names]
    return patch


def key(obj):
    return obj["apiVersion"], obj["kind"], obj["metadata"]["name"]


def containers(obj):
    pod = obj.get("spec", {}).get("template", {}).get("spec", {}) if obj["kind"] == "DaemonSet" else {}
    return pod.get("initContainers", []) + pod.get("containers", [])


def image(name, images):
    for i in images:
        if i["name"] == name:
            return "%s:%s" % (i.get("newName", name), i["newTag"])
    return name


def config_map(folder, generator):
    """The ConfigMap of an entry of configMapGenerator."""
    assert set(generator) <= {"name", "namespace", "behavior", "files", "options"}
    assert set(generator["options"]) <= {"immutable", "labels"}
    data = {}
    for name in generator["files"]:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            data[name] = f.read()
    meta = {"name": generator["name"], "labels": generator["options"].get("labels"), "namespace": generator.get("namespace")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {k: v for k, v in meta.items() if v}, "data": data,
            "immutable": generator["options"]["immutable"], "is_generated": True}


def renamed(found, name_of):
    """`found` with name_of(ConfigMap) as the name of each ConfigMap, also in the volumes of DaemonSets."""
    names = {o["metadata"]["name"]: name_of(o) for o in found.values() if o["kind"] == "ConfigMap"}
    for obj in found.values():
        if obj["kind"] == "ConfigMap":
            obj["metadata"]["name"] = names[obj["metadata"]["name"]]
        for volume in obj["spec"]["template"]["spec"]["volumes"] if obj["kind"] == "DaemonSet" else []:
            if "configMap" in volume:
                volume["configMap"]["name"] = names[volume["configMap"]["name"]]
    return {key(o): o for o in found.values()}


def without_hash(found):
    """`found` with the hash in names of ConfigMaps replaced: each program has its own function."""
    return renamed(found, lambda obj: obj["metadata"]["name"].rsplit("-", 1)[0] + "-HASH")


def build(folder):
    """{key: object}. Names of generated ConfigMaps end with a hash of their content."""
    def name_of(obj):
        text = json.dumps(obj["data"], sort_keys=True).encode()
        return obj["metadata"]["name"] + ("-" + hashlib.sha256(text).hexdigest()[:10] if obj.pop("is_generated", False) else "")
    return renamed(merged(folder), name_of)


def merged(folder):
    """{key: object}, without hashes in names."""
    (k,) = read(os.path.join(folder, "kustomization.yaml"))
    assert set(k) <= FIELDS, set(k) - FIELDS
    found = {}
    for name in k["resources"]:
        path = os.path.join(folder, name)
        new = merged(path) if os.path.isdir(path) else {key(o): o for o in read(path)}
        assert not new.keys() & found.keys()
        found.update(new)
    for entry in k.get("patches", ()):
        (patch,) = read(os.path.join(folder, entry["path"]))
        found[key(patch)] = merge(found[key(patch)], patch)
    for generator in k.get("configMapGenerator", ()):
        new = config_map(folder, generator)
        assert (key(new) in found) == (generator.get("behavior") == "merge")
        found[key(new)] = merge(found.get(key(new), {}), new)
    for obj in found.values():
        for c in containers(obj):
            c["image"] = image(c["image"], k.get("images", []))
        if "namespace" in k and obj["kind"] not in CLUSTER_WIDE:
            obj["metadata"]["namespace"] = k["namespace"]
    return found
