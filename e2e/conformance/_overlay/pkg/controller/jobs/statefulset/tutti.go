// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"sigs.k8s.io/kueue/internal/tuttichild"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
)

// SetupWebhook records the framework: the suites enable none but batch/job.
func SetupWebhook(mgr ctrl.Manager, opts ...jobframework.Option) error {
	tuttichild.UseFramework(FrameworkName)
	return setupWebhookHere(mgr, opts...)
}
