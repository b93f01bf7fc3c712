# SPDX-License-Identifier: Apache-2.0
"""Building blocks for the CRD schemas: small functions that return OpenAPI v3 nodes.

A property name that starts with '*' is required. Every node takes a short description `d`.
Nothing here knows a kind; kinds.py puts these blocks together and gen.py writes the files.
"""

DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
KIND_NAME = r"^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$"
QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
# Longest accepted text of a quantity in a spec. A bound is needed for the CEL cost estimate.
QUANTITY_LENGTH = 64
MAX_INT64 = 9223372036854775807


def rule(expr, message, message_expression=None, field_path=None, webhook=False):
    """One x-kubernetes-validations entry. `webhook`: Kueue has this rule in its webhook and not in
    its CRDs; ours has it in both."""
    out = {"rule": " ".join(expr.split()), "message": message}
    if message_expression:
        out["messageExpression"] = " ".join(message_expression.split())
    if field_path:
        out["fieldPath"] = field_path
    if webhook:
        out[WEBHOOK] = True
    return out


# Marks a rule that the webhooks check as well; not a part of the CRD.
WEBHOOK = "_webhook"


def without_marks(node, drop_marked):
    """A copy without the marks and, if asked for, without the marked rules."""
    if isinstance(node, dict):
        out = {}
        for key, item in node.items():
            if key == WEBHOOK:
                continue
            if key == "x-kubernetes-validations":
                item = [r for r in item if not (drop_marked and r.get(WEBHOOK))]
                if not item:
                    continue
            out[key] = without_marks(item, drop_marked)
        return out
    if isinstance(node, list):
        return [without_marks(item, drop_marked) for item in node]
    return node


def _node(d, node, cel=None, default=None):
    out = {}
    if d:
        out["description"] = d
    out.update(node)
    if default is not None:
        out["default"] = default
    if cel:
        out["x-kubernetes-validations"] = list(cel)
    return out


def obj(d, props, cel=None, default=None, preserve=False, atomic=False):
    properties, required = {}, []
    for name, node in props.items():
        if name.startswith("*"):
            name = name[1:]
            required.append(name)
        properties[name] = node
    node = {"type": "object"}
    if properties:
        node["properties"] = properties
    if required:
        node["required"] = required
    if preserve:
        node["x-kubernetes-preserve-unknown-fields"] = True
    if atomic:
        node["x-kubernetes-map-type"] = "atomic"
    return _node(d, node, cel, default)


def arr(d, items, minimum=None, maximum=None, kind="atomic", keys=None, cel=None):
    node = {"type": "array", "items": items}
    if minimum is not None:
        node["minItems"] = minimum
    if maximum is not None:
        node["maxItems"] = maximum
    node["x-kubernetes-list-type"] = "map" if keys else kind
    if keys:
        node["x-kubernetes-list-map-keys"] = keys
    return _node(d, node, cel)


def table(d, values, maximum=None, atomic=False, cel=None):
    """A map with string keys."""
    node = {"type": "object", "additionalProperties": values}
    if maximum is not None:
        node["maxProperties"] = maximum
    if atomic:
        node["x-kubernetes-map-type"] = "atomic"
    return _node(d, node, cel)


def text(d="", minimum=None, maximum=None, pattern=None, cel=None, default=None):
    node = {"type": "string"}
    if minimum is not None:
        node["minLength"] = minimum
    if maximum is not None:
        node["maxLength"] = maximum
    if pattern:
        node["pattern"] = pattern
    return _node(d, node, cel, default)


def choice(d, *values, default=None, maximum=None):
    node = {"type": "string", "enum": list(values)}
    if maximum is not None:
        node["maxLength"] = maximum
    return _node(d, node, None, default)


def int32(d="", minimum=None, maximum=None, default=None):
    node = {"type": "integer", "format": "int32"}
    if minimum is not None:
        node["minimum"] = minimum
    if maximum is not None:
        node["maximum"] = maximum
    return _node(d, node, None, default)


def int64(d="", minimum=None):
    node = {"type": "integer", "format": "int64"}
    if minimum is not None:
        node["minimum"] = minimum
    return _node(d, node)


def flag(d="", default=None):
    return _node(d, {"type": "boolean"}, None, default)


def time(d=""):
    return _node(d, {"type": "string", "format": "date-time"})


def opaque(d=""):
    """An object whose content is not described here."""
    return _node(d, {"type": "object", "x-kubernetes-preserve-unknown-fields": True})


def opaque_list(d=""):
    return arr(d, opaque())


def quantity(d="", cel=None, default=None, bounded=False):
    node = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": True,
    }
    if bounded or cel:
        node["maxLength"] = QUANTITY_LENGTH
    return _node(d, node, cel, default)


def as_quantity(expr):
    """CEL: the quantity of an int-or-string field; only after well_formed() holds."""
    return f"(type({expr}) == int ? quantity('0').add({expr}) : quantity({expr}))"


def well_formed(expr):
    return f"(type({expr}) == int || isQuantity({expr}))"


def amount(field, d):
    """A quantity in a quota: well formed, not negative, representable."""
    q = as_quantity("self")
    return quantity(
        d,
        cel=[
            rule(
                f"!{well_formed('self')} || !{q}.isLessThan(quantity('0'))",
                f"{field} must not be negative: use 0 or more",
                webhook=True,
            ),
            rule(
                f"{well_formed('self')} && {q}.isLessThan(quantity('{MAX_INT64}'))",
                f"{field} must be a well-formed quantity below 2^63-1, such as 8, 500m or 64Gi",
            ),
        ],
    )


def name_ref(d=""):
    return text(d, maximum=253, pattern=DNS_SUBDOMAIN)


def conditions():
    return arr(
        "What the controller observes, one entry per type.",
        obj(
            "",
            {
                "*type": text("Condition type.", maximum=316, pattern=QUALIFIED_NAME),
                "*status": choice("True, False or Unknown.", "True", "False", "Unknown"),
                "*reason": text("Short machine-readable cause.", 1, 1024, REASON),
                "*message": text("Explanation for people.", maximum=32768),
                "*lastTransitionTime": time("When the status last changed."),
                "observedGeneration": int64("Generation that this entry speaks of.", 0),
            },
        ),
        maximum=16,
        keys=["type"],
    )


def label_selector(d):
    return obj(
        d,
        {
            "matchLabels": table("Labels that must be there with these values.", text()),
            "matchExpressions": arr(
                "Further requirements, all of which must hold.",
                obj(
                    "",
                    {
                        "*key": text("Label key."),
                        "*operator": text("In, NotIn, Exists or DoesNotExist."),
                        "values": arr("Values for In and NotIn.", text()),
                    },
                    cel=[
                        rule(
                            "self.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']",
                            "operator must be In, NotIn, Exists or DoesNotExist",
                        ),
                        rule(
                            """(self.operator in ['In', 'NotIn'])
                               == (has(self.values) && size(self.values) > 0)""",
                            "values must be given where operator is In or NotIn, and only there",
                            webhook=True,
                        ),
                    ],
                ),
            ),
        },
        atomic=True,
    )


def toleration():
    return obj(
        "",
        {
            "key": text("Taint key; empty stands for all keys."),
            "operator": text("Equal (the default) or Exists."),
            "value": text("Taint value; only for Equal."),
            "effect": text("Taint effect; empty stands for all effects."),
            "tolerationSeconds": int64("How long a NoExecute taint is tolerated."),
        },
    )


def tolerations(d):
    return arr(
        d,
        toleration(),
        maximum=8,
        cel=[
            rule(
                "self.all(x, has(x.key) || (has(x.operator) && x.operator == 'Exists'))",
                "operator must be Exists where key is empty (it then tolerates every taint)",
            ),
            rule(
                """self.all(x, !has(x.tolerationSeconds)
                     || (has(x.effect) && x.effect == 'NoExecute'))""",
                "effect must be NoExecute where tolerationSeconds is set",
            ),
            rule(
                "self.all(x, !has(x.operator) || x.operator in ['Equal', 'Exists'])",
                "operator must be Equal (the default) or Exists",
            ),
            rule(
                """self.all(x, !has(x.operator) || x.operator != 'Exists'
                     || !has(x.value))""",
                "value must be left out where operator is Exists",
            ),
            rule(
                """self.all(x, !has(x.effect)
                     || x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])""",
                "effect must be NoSchedule, PreferNoSchedule or NoExecute, or left out for all",
            ),
        ],
    )
