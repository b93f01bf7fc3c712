// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"sigs.k8s.io/kueue/internal/tuttichild"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
)

// SetupJobSetWebhook records the framework: the suites enable none but batch/job.
func SetupJobSetWebhook(mgr ctrl.Manager, opts ...jobframework.Option) error {
	tuttichild.UseFramework(FrameworkName)
	return setupJobSetWebhookHere(mgr, opts...)
}
