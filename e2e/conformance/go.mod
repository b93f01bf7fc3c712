// Kueue's own integration specs, run with Tutti as the manager. The version required here is the one
// whose specs are copied; see README.md.
module tutti.dev/e2e/conformance

go 1.26.0

require sigs.k8s.io/kueue v0.19.2
