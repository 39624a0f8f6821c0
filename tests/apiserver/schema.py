# SPDX-License-Identifier: GPL-2.0-or-later
"""Schema of the objects: each message of the server, in the order of its JSON fields.

One line a field: JSON name, protobuf number (doc/behaviour.md, appendix A), type. After the type:

    ?   may be absent: in neither encoding unless set, and then even when empty
    *   a list
    !   in JSON even when empty (as null, "", 0); without it empty plain fields are omitted

Fields with none of these marks are always written in protobuf, empty or not, as by real servers.
Types: str, int, bool, map (string to string), quantities (string to quantity), Time (RFC 3339 or
null), IntOrString, Fields (any JSON object, text in protobuf), or a message.
"""

TEXT = """
ListMeta
    selfLink                  1 str
    resourceVersion           2 str
    continue                  3 str
    remainingItemCount        4 int?

ObjectMeta
    name                      1 str
    generateName              2 str
    namespace                 3 str
    selfLink                  4 str
    uid                       5 str
    resourceVersion           6 str
    generation                7 int
    creationTimestamp         8 Time
    deletionTimestamp         9 Time?
    deletionGracePeriodSeconds 10 int?
    labels                    11 map
    annotations               12 map
    ownerReferences           13 OwnerReference*
    finalizers                14 str*
    managedFields             17 ManagedFields*

OwnerReference
    apiVersion                5 str!
    kind                      1 str!
    name                      3 str!
    uid                       4 str!
    controller                6 bool?
    blockOwnerDeletion        7 bool?

ManagedFields
    manager                   1 str
    operation                 2 str
    apiVersion                3 str
    time                      4 Time?
    fieldsType                6 str
    fieldsV1                  7 Fields?
    subresource               8 str

Condition
    type                      1 str!
    status                    2 str!
    observedGeneration        3 int
    lastTransitionTime        4 Time!
    reason                    5 str!
    message                   6 str!

ObjectReference
    kind                      1 str
    namespace                 2 str
    name                      3 str
    uid                       4 str
    apiVersion                5 str
    resourceVersion           6 str
    fieldPath                 7 str

Status
    metadata                  1 ListMeta
    status                    2 str
    message                   3 str
    reason                    4 str
    details                   5 StatusDetails?
    code                      6 int

StatusDetails
    name                      1 str
    group                     2 str
    kind                      3 str
    uid                       6 str
    causes                    4 StatusCause*
    retryAfterSeconds         5 int

StatusCause
    reason                    1 str
    message                   2 str
    field                     3 str

Service
    metadata                  1 ObjectMeta
    spec                      2 ServiceSpec
    status                    3 ServiceStatus

ServiceSpec
    ports                     1 ServicePort*
    selector                  2 map
    clusterIP                 3 str
    clusterIPs                18 str*
    type                      4 str
    externalIPs               5 str*
    sessionAffinity           7 str
    loadBalancerIP            8 str
    loadBalancerSourceRanges  9 str*
    externalName              10 str
    externalTrafficPolicy     11 str
    healthCheckNodePort       12 int
    publishNotReadyAddresses  13 bool
    sessionAffinityConfig     14 SessionAffinityConfig?
    ipFamilies                19 str*
    ipFamilyPolicy            17 str?
    allocateLoadBalancerNodePorts 20 bool?
    loadBalancerClass         21 str?
    internalTrafficPolicy     22 str?
    trafficDistribution       23 str?

ServicePort
    name                      1 str
    protocol                  2 str
    appProtocol               6 str?
    port                      3 int!
    targetPort                4 IntOrString
    nodePort                  5 int

SessionAffinityConfig
    clientIP                  1 ClientIPConfig?

ClientIPConfig
    timeoutSeconds            1 int?

ServiceStatus
    loadBalancer              1 LoadBalancerStatus
    conditions                2 Condition*

LoadBalancerStatus
    ingress                   1 LoadBalancerIngress*

LoadBalancerIngress
    ip                        1 str
    hostname                  2 str
    ipMode                    3 str?
    ports                     4 PortStatus*

PortStatus
    port                      1 int!
    protocol                  2 str!
    error                     3 str?

EndpointSlice
    metadata                  1 ObjectMeta
    addressType               4 str!
    endpoints                 2 Endpoint*!
    ports                     3 EndpointPort*!

Endpoint
    addresses                 1 str*!
    conditions                2 EndpointConditions
    hostname                  3 str?
    targetRef                 4 ObjectReference?
    deprecatedTopology        5 map
    nodeName                  6 str?
    zone                      7 str?
    hints                     8 EndpointHints?

EndpointConditions
    ready                     1 bool?
    serving                   2 bool?
    terminating               3 bool?

EndpointHints
    forZones                  1 Named*
    forNodes                  2 Named*

Named
    name                      1 str!

EndpointPort
    name                      1 str?
    protocol                  2 str?
    port                      3 int?
    appProtocol               4 str?

Node
    metadata                  1 ObjectMeta
    spec                      2 NodeSpec
    status                    3 NodeStatus

NodeSpec
    podCIDR                   1 str
    podCIDRs                  7 str*
    providerID                3 str
    unschedulable             4 bool
    taints                    5 Taint*
    externalID                2 str

Taint
    key                       1 str!
    value                     2 str
    effect                    3 str!
    timeAdded                 4 Time?

NodeStatus
    capacity                  1 quantities
    allocatable               2 quantities
    phase                     3 str
    conditions                4 NodeCondition*
    addresses                 5 NodeAddress*
    daemonEndpoints           6 NodeDaemonEndpoints
    nodeInfo                  7 NodeSystemInfo
    images                    8 ContainerImage*
    volumesInUse              9 str*
    runtimeHandlers           12 RuntimeHandler*
    features                  13 NodeFeatures?
    declaredFeatures          14 str*

NodeCondition
    type                      1 str!
    status                    2 str!
    lastHeartbeatTime         3 Time!
    lastTransitionTime        4 Time!
    reason                    5 str
    message                   6 str

NodeAddress
    type                      1 str!
    address                   2 str!

NodeDaemonEndpoints
    kubeletEndpoint           1 DaemonEndpoint

DaemonEndpoint
    Port                      1 int!

NodeSystemInfo
    machineID                 1 str!
    systemUUID                2 str!
    bootID                    3 str!
    kernelVersion             4 str!
    osImage                   5 str!
    containerRuntimeVersion   6 str!
    kubeletVersion            7 str!
    kubeProxyVersion          8 str!
    operatingSystem           9 str!
    architecture              10 str!

ContainerImage
    names                     1 str*!
    sizeBytes                 2 int

RuntimeHandler
    name                      1 str!
    features                  2 RuntimeHandlerFeatures?

RuntimeHandlerFeatures
    recursiveReadOnlyMounts   1 bool?
    userNamespaces            2 bool?

NodeFeatures
    supplementalGroupsPolicy  1 bool?

ServiceCIDR
    metadata                  1 ObjectMeta
    spec                      2 ServiceCIDRSpec
    status                    3 ServiceCIDRStatus

ServiceCIDRSpec
    cidrs                     1 str*

ServiceCIDRStatus
    conditions                1 Condition*
"""


class Field:
    """One field of a message. `message` is set when `type` names one."""

    def __init__(self, name, number, spec):
        self.name = name
        self.number = number
        self.type = spec.rstrip("?*!")
        marks = spec[len(self.type):]
        self.optional = "?" in marks
        self.repeated = "*" in marks
        self.keep = "!" in marks
        self.message = None


class Message:
    """A message: `fields` in JSON order, `numbered` in protobuf order, `by_number` for decoding."""

    def __init__(self, name):
        self.name = name
        self.fields = []

    def seal(self, messages):
        for f in self.fields:
            f.message = messages.get(f.type)
        self.numbered = sorted(self.fields, key=lambda f: f.number)
        self.by_number = {f.number: f for f in self.fields}


def parse(text):
    messages = {}
    current = None
    for line in text.splitlines():
        if not line.strip():
            continue
        if not line.startswith(" "):
            current = messages[line.strip()] = Message(line.strip())
            continue
        name, number, spec = line.split()
        current.fields.append(Field(name, int(number), spec))
    for m in messages.values():
        m.seal(messages)
    return messages


MESSAGES = parse(TEXT)


class Kind:
    """A resource: its path, the message of its objects, fields that field selectors may name."""

    def __init__(self, resource, kind, group, version, namespaced, selectable=()):
        self.resource = resource
        self.kind = kind
        self.group = group
        self.version = version
        self.api_version = "%s/%s" % (group, version) if group else version
        self.namespaced = namespaced
        self.message = MESSAGES[kind]
        self.selectable = selectable
        self.prefix = "/apis/" + self.api_version if group else "/api/" + version


KINDS = {k.resource: k for k in (
    Kind("services", "Service", "", "v1", True, ("spec.clusterIP", "spec.type")),
    Kind("nodes", "Node", "", "v1", False, ("spec.unschedulable",)),
    Kind("endpointslices", "EndpointSlice", "discovery.k8s.io", "v1", True),
    Kind("servicecidrs", "ServiceCIDR", "networking.k8s.io", "v1", False),
)}
BY_KIND = {k.kind: k for k in KINDS.values()}
