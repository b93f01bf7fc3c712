# SPDX-License-Identifier: Apache-2.0
"""The pod template inside a Workload: lean, but typed where a wrong type would do harm.

Fields that are not listed are kept as they are. Those listed have the type that Kubernetes gives
them, so that no Workload can be stored which a typed client could not read back.
"""

from schema import arr, flag, int32, int64, obj, opaque, opaque_list, quantity, table, text


def amounts():
    return table("", quantity())


def resources(claims):
    props = {"requests": amounts(), "limits": amounts()}
    if claims:
        props["claims"] = arr("", obj("", {"*name": text(), "request": text()}), kind="map",
                              keys=["name"])
    return obj("", props, preserve=True)


def container():
    return obj("", {
        "*name": text(),
        "image": text(),
        "imagePullPolicy": text(),
        "command": arr("", text()),
        "args": arr("", text()),
        "workingDir": text(),
        "env": opaque_list(),
        "envFrom": opaque_list(),
        "ports": opaque_list(),
        "resources": resources(claims=True),
        "restartPolicy": text(),
        "volumeMounts": opaque_list(),
        "volumeDevices": opaque_list(),
        "securityContext": opaque(),
        "lifecycle": opaque(),
        "livenessProbe": opaque(),
        "readinessProbe": opaque(),
        "startupProbe": opaque(),
        "stdin": flag(),
        "stdinOnce": flag(),
        "tty": flag(),
        "terminationMessagePath": text(),
        "terminationMessagePolicy": text(),
    }, preserve=True)


def pod_template():
    containers = arr("", container(), keys=["name"])
    return obj("Template of the pods; fields that are not listed are kept.", {
        "metadata": obj("", {
            "name": text(),
            "namespace": text(),
            "labels": table("", text()),
            "annotations": table("", text()),
            "finalizers": arr("", text()),
        }, preserve=True),
        "spec": obj("", {
            "*containers": containers,
            "initContainers": containers,
            "volumes": opaque_list(),
            "nodeSelector": table("", text()),
            "nodeName": text(),
            "affinity": opaque(),
            "tolerations": arr("", obj("", {
                "key": text(),
                "operator": text(),
                "value": text(),
                "effect": text(),
                "tolerationSeconds": int64(),
            }, preserve=True)),
            "topologySpreadConstraints": opaque_list(),
            "schedulingGates": arr("", obj("", {"*name": text()}, preserve=True), keys=["name"]),
            "schedulingGroup": opaque(),
            "schedulerName": text(),
            "priorityClassName": text(),
            "priority": int32(),
            "preemptionPolicy": text(),
            "runtimeClassName": text(),
            "overhead": amounts(),
            "resources": resources(claims=True),
            "resourceClaims": arr("", obj("", {
                "*name": text(),
                "resourceClaimName": text(),
                "resourceClaimTemplateName": text(),
            }, preserve=True), keys=["name"]),
            "restartPolicy": text(),
            "activeDeadlineSeconds": int64(),
            "terminationGracePeriodSeconds": int64(),
            "serviceAccountName": text(),
            "automountServiceAccountToken": flag(),
            "imagePullSecrets": opaque_list(),
            "securityContext": opaque(),
            "hostname": text(),
            "subdomain": text(),
            "setHostnameAsFQDN": flag(),
            "hostNetwork": flag(),
            "hostPID": flag(),
            "hostIPC": flag(),
            "hostUsers": flag(),
            "shareProcessNamespace": flag(),
            "enableServiceLinks": flag(),
            "dnsPolicy": text(),
            "dnsConfig": opaque(),
            "hostAliases": opaque_list(),
            "readinessGates": opaque_list(),
            "os": opaque(),
        }, preserve=True),
    }, preserve=True)
