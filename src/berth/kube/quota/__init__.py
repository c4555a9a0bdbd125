"""ResourceQuotas: what an object uses of which resource and in which scope, and whether so much is left.

Pure, and the one place that knows: admission, whoever counts again, webhook and controllers ask here.
Upstream: apiserver/pkg/quota/v1, pkg/quota/v1/evaluator/core, apiserver/pkg/admission/plugin/resourcequota.
"""
