# SPDX-License-Identifier: GPL-2.0-or-later
"""The part of Kustomize that deploy/ uses: resources, patches (strategic merge), images, namespace."""
import os

import yaml

CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "SecurityContextConstraints"}
FIELDS = {"apiVersion", "kind", "resources", "patches", "images", "namespace"}


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


def build(folder):
    """{key: object}."""
    (k,) = read(os.path.join(folder, "kustomization.yaml"))
    assert set(k) <= FIELDS, set(k) - FIELDS
    found = {}
    for name in k["resources"]:
        path = os.path.join(folder, name)
        new = build(path) if os.path.isdir(path) else {key(o): o for o in read(path)}
        assert not new.keys() & found.keys()
        found.update(new)
    for entry in k.get("patches", ()):
        (patch,) = read(os.path.join(folder, entry["path"]))
        found[key(patch)] = merge(found[key(patch)], patch)
    for obj in found.values():
        for c in containers(obj):
            c["image"] = image(c["image"], k.get("images", []))
        if "namespace" in k and obj["kind"] not in CLUSTER_WIDE:
            obj["metadata"]["namespace"] = k["namespace"]
    return found
