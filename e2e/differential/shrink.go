// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// shrink takes things out of the case as long as `still` holds, until nothing more can go.
func shrink(c *Case, still func(*Case) bool) *Case {
	for again := true; again; {
		again = false
		for _, change := range changes(c) {
			smaller := c.clone()
			if !change(smaller) {
				continue
			}
			if still(smaller) {
				c, again = smaller, true
				break
			}
		}
	}
	return c
}

// changes that make a case smaller, large ones first. Each says whether it could be made.
func changes(c *Case) []func(*Case) bool {
	var out []func(*Case) bool
	add := func(change func(*Case) bool) { out = append(out, change) }
	for i := len(c.Steps) - 1; i >= 0; i-- {
		add(func(c *Case) bool { c.Steps = slices.Delete(c.Steps, i, i+1); return true })
	}
	for i := range c.Queues {
		add(func(c *Case) bool {
			name := c.Queues[i].Name
			c.Queues = slices.Delete(c.Queues, i, i+1)
			for s := range c.Steps {
				c.Steps[s].Arrive = slices.DeleteFunc(c.Steps[s].Arrive, func(w kueue.Workload) bool { return string(w.Spec.QueueName) == name })
			}
			return true
		})
	}
	for s := range c.Steps {
		for i := range c.Steps[s].Arrive {
			add(func(c *Case) bool { c.Steps[s].Arrive = slices.Delete(c.Steps[s].Arrive, i, i+1); return true })
		}
		for i := range c.Steps[s].End {
			add(func(c *Case) bool { c.Steps[s].End = slices.Delete(c.Steps[s].End, i, i+1); return true })
		}
	}
	for i := range c.Cohorts {
		add(func(c *Case) bool { c.Cohorts = slices.Delete(c.Cohorts, i, i+1); return true })
		add(func(c *Case) bool {
			had := len(c.Cohorts[i].Spec.ResourceGroups) > 0
			c.Cohorts[i].Spec.ResourceGroups = nil
			return had
		})
	}
	for i := range c.Queues {
		out = append(out, queueChanges(i, &c.Queues[i])...)
	}
	for s := range c.Steps {
		for i := range c.Steps[s].Arrive {
			out = append(out, workloadChanges(s, i, &c.Steps[s].Arrive[i])...)
		}
	}
	for i := range c.Cohorts {
		out = append(out, quotaChanges(c.Cohorts[i].Spec.ResourceGroups, func(c *Case) *[]kueue.ResourceGroup { return &c.Cohorts[i].Spec.ResourceGroups })...)
	}
	for i := range c.Flavors {
		add(func(c *Case) bool {
			had := len(c.Flavors[i].Spec.NodeLabels)+len(c.Flavors[i].Spec.NodeTaints) > 0
			c.Flavors[i].Spec = kueue.ResourceFlavorSpec{}
			return had
		})
	}
	return out
}

func queueChanges(i int, q *kueue.ClusterQueue) []func(*Case) bool {
	out := []func(*Case) bool{
		func(c *Case) bool {
			spec := &c.Queues[i].Spec
			had := spec.CohortName != ""
			spec.CohortName = ""
			for g := range spec.ResourceGroups {
				for f := range spec.ResourceGroups[g].Flavors {
					for r := range spec.ResourceGroups[g].Flavors[f].Resources {
						spec.ResourceGroups[g].Flavors[f].Resources[r].BorrowingLimit = nil
						spec.ResourceGroups[g].Flavors[f].Resources[r].LendingLimit = nil
					}
				}
			}
			return had
		},
		func(c *Case) bool {
			spec := &c.Queues[i].Spec
			had := spec.QueueingStrategy == kueue.StrictFIFO
			spec.QueueingStrategy = kueue.BestEffortFIFO
			return had
		},
		func(c *Case) bool {
			p := c.Queues[i].Spec.Preemption
			had := p.WithinClusterQueue != kueue.PreemptionPolicyNever
			p.WithinClusterQueue = kueue.PreemptionPolicyNever
			return had
		},
		func(c *Case) bool {
			p := c.Queues[i].Spec.Preemption
			had := p.ReclaimWithinCohort != kueue.PreemptionPolicyNever
			p.ReclaimWithinCohort = kueue.PreemptionPolicyNever
			p.BorrowWithinCohort.Policy = kueue.BorrowWithinCohortPolicyNever
			p.BorrowWithinCohort.MaxPriorityThreshold = nil
			return had
		},
		func(c *Case) bool {
			p := c.Queues[i].Spec.Preemption
			had := p.BorrowWithinCohort.Policy != kueue.BorrowWithinCohortPolicyNever
			p.BorrowWithinCohort.Policy = kueue.BorrowWithinCohortPolicyNever
			p.BorrowWithinCohort.MaxPriorityThreshold = nil
			return had
		},
		func(c *Case) bool {
			f := c.Queues[i].Spec.FlavorFungibility
			had := f.Preference != nil
			f.Preference = nil
			return had
		},
		func(c *Case) bool {
			f := c.Queues[i].Spec.FlavorFungibility
			had := f.WhenCanBorrow == kueue.TryNextFlavor && f.Preference == nil
			if had {
				f.WhenCanBorrow = kueue.MayStopSearch
			}
			return had
		},
		func(c *Case) bool {
			had := c.Queues[i].Spec.FairSharing != nil
			c.Queues[i].Spec.FairSharing = nil
			return had
		},
	}
	return append(out, quotaChanges(q.Spec.ResourceGroups, func(c *Case) *[]kueue.ResourceGroup { return &c.Queues[i].Spec.ResourceGroups })...)
}

func quotaChanges(groups []kueue.ResourceGroup, of func(*Case) *[]kueue.ResourceGroup) []func(*Case) bool {
	var out []func(*Case) bool
	for g := range groups {
		if len(groups) > 1 {
			out = append(out, func(c *Case) bool { *of(c) = slices.Delete(*of(c), g, g+1); return true })
		}
		for f := range groups[g].Flavors {
			if len(groups[g].Flavors) > 1 {
				out = append(out, func(c *Case) bool {
					group := &(*of(c))[g]
					group.Flavors = slices.Delete(group.Flavors, f, f+1)
					return true
				})
			}
			for r := range groups[g].Flavors[f].Resources {
				quota := func(c *Case) *kueue.ResourceQuota { return &(*of(c))[g].Flavors[f].Resources[r] }
				out = append(out,
					func(c *Case) bool { had := quota(c).BorrowingLimit != nil; quota(c).BorrowingLimit = nil; return had },
					func(c *Case) bool { had := quota(c).LendingLimit != nil; quota(c).LendingLimit = nil; return had },
					func(c *Case) bool {
						q := quota(c)
						had := q.NominalQuota.Value() > 0 && q.LendingLimit == nil
						if had {
							q.NominalQuota = amount(int(q.NominalQuota.Value() - 1))
						}
						return had
					})
			}
		}
		for r := range groups[g].CoveredResources {
			if len(groups[g].CoveredResources) > 1 {
				out = append(out, func(c *Case) bool {
					group := &(*of(c))[g]
					group.CoveredResources = slices.Delete(slices.Clone(group.CoveredResources), r, r+1)
					for f := range group.Flavors {
						group.Flavors[f].Resources = slices.Delete(group.Flavors[f].Resources, r, r+1)
					}
					return true
				})
			}
		}
	}
	return out
}

func workloadChanges(s, i int, w *kueue.Workload) []func(*Case) bool {
	out := []func(*Case) bool{func(c *Case) bool {
		priority := c.Steps[s].Arrive[i].Spec.Priority
		had := *priority > 0
		*priority = max(*priority-1, 0)
		return had
	}}
	for p := range w.Spec.PodSets {
		podSet := func(c *Case) *kueue.PodSet { return &c.Steps[s].Arrive[i].Spec.PodSets[p] }
		if len(w.Spec.PodSets) > 1 {
			out = append(out, func(c *Case) bool {
				spec := &c.Steps[s].Arrive[i].Spec
				spec.PodSets = slices.Delete(spec.PodSets, p, p+1)
				return true
			})
		}
		out = append(out,
			func(c *Case) bool { had := podSet(c).MinCount != nil; podSet(c).MinCount = nil; return had },
			func(c *Case) bool {
				had := podSet(c).Count > 1 && podSet(c).MinCount == nil
				if had {
					podSet(c).Count--
				}
				return had
			},
			func(c *Case) bool {
				spec := &podSet(c).Template.Spec
				had := len(spec.NodeSelector)+len(spec.Tolerations) > 0
				spec.NodeSelector, spec.Tolerations = nil, nil
				return had
			})
		for _, name := range sortedKeys(w.Spec.PodSets[p].Template.Spec.Containers[0].Resources.Requests) {
			requests := func(c *Case) corev1.ResourceList { return podSet(c).Template.Spec.Containers[0].Resources.Requests }
			out = append(out,
				func(c *Case) bool { delete(requests(c), name); return true },
				func(c *Case) bool {
					request := requests(c)[name]
					had := request.Value() > 0
					if had {
						requests(c)[name] = amount(int(request.Value() - 1))
					}
					return had
				})
		}
	}
	return out
}
