// SPDX-License-Identifier: Apache-2.0
// The program `tutti`: `tutti operator` (also without a subcommand, as Kueue's image is started),
// `audit`, `compare`, `doctor`, `fit`, `measure`, `observe`, `simulate`, `version` and `why`.
// Signals are taken by one thread that only asks the manager to stop.
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <pthread.h>
#include <unistd.h>

#include "base/log.h"
#include "base/names.h"
#include "operator/audit_command.h"
#include "operator/backtrace.h"
#include "operator/config.h"
#include "operator/doctor_command.h"
#include "operator/fit_command.h"
#include "operator/logging.h"
#include "operator/manager.h"
#include "operator/measure_command.h"
#include "operator/observe_command.h"
#include "operator/simulate_command.h"
#include "operator/version.h"
#include "operator/why_command.h"

namespace tutti {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitFailed = 1;

std::string ReadAll(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Unique per process: host name and a random UUID from the kernel.
std::string Identity() {
  char host[256] = "tutti";
  if (gethostname(host, sizeof(host) - 1) != 0) {
    host[0] = '\0';
  }
  std::string uuid = ReadAll("/proc/sys/kernel/random/uuid");
  uuid.erase(uuid.find_last_not_of('\n') + 1);
  return std::string(host) + "_" + uuid;
}

struct Flags {
  std::string config;
  std::string kubeconfig;
  std::string feature_gates;
  std::string log_level = "info";
};

int RunOperator(const Flags& flags) {
  const auto level = logging::ParseLevel(flags.log_level);
  if (!level) {
    std::fprintf(stderr, "tutti: --zap-log-level: %s\n", level.error().message.c_str());
    return kExitUsage;
  }
  ConfigContext context;
  context.own_namespace = ReadAll("/var/run/secrets/kubernetes.io/serviceaccount/namespace");
  context.feature_gates_flag = flags.feature_gates;
  auto config = LoadConfig(flags.config, context);
  if (!config) {
    std::fprintf(stderr, "tutti: %s\n", config.error().message.c_str());
    return kExitUsage;
  }
  logging::Install({.level = *level});
  InstallCrashHandler();
  log::Info("tutti", {{"version", kVersionText}, {"commit", kGitCommit}});
  for (const std::string& note : config->notes) {
    log::Warn("configuration", {{"note", note}});
  }
  if (flags.kubeconfig.empty() &&
      access("/var/run/secrets/kubernetes.io/serviceaccount/token", R_OK) != 0) {
    log::Error("no credentials: give --kubeconfig FILE, or run in a pod with a service account",
               {});
    return kExitUsage;
  }

  // Blocked before any thread starts, so that every thread inherits it and only one receives them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Manager manager({std::move(*config), flags.kubeconfig, Identity()});
  std::thread waiter([&manager, signals] {
    int number = 0;
    sigwait(&signals, &number);
    manager.Stop();
  });
  const Status status = manager.Run();
  // The manager may have stopped by itself: wake the waiting thread.
  pthread_kill(waiter.native_handle(), SIGTERM);
  waiter.join();
  if (!status) {
    log::Error("stopped", {{"error", status.error().message}});
  } else {
    log::Info("stopped", {});
  }
  logging::Shutdown();
  return status ? 0 : kExitFailed;
}

int Main(int argc, char** argv) {
  CLI::App app{"Tutti: a batch queue controller for Kubernetes"};
  app.name("tutti");
  Flags flags;
  const auto add_operator_flags = [&flags](CLI::App& command) {
    command.add_option("--config", flags.config, "Configuration file")->check(CLI::ExistingFile);
    command.add_option("--kubeconfig", flags.kubeconfig, "Kubeconfig file; default: in cluster")
        ->check(CLI::ExistingFile);
    command.add_option("--feature-gates", flags.feature_gates, "Name=true|false,…");
    command.add_option("--zap-log-level", flags.log_level, "debug, info, warn, error or a number");
    for (const char* accepted :
         {"--zap-devel", "--zap-encoder", "--zap-stacktrace-level", "--zap-time-encoding"}) {
      command.add_option_function<std::string>(
          accepted, [](const std::string&) {}, "Accepted for Kueue's manifests; no effect");
    }
  };
  add_operator_flags(app);
  CLI::App* run = app.add_subcommand("operator", "Run the controller (default)");
  add_operator_flags(*run);
  AuditFlags audit_flags;
  CLI::App* audit = app.add_subcommand(
      "audit",
      "Say which jobs of several pods started partially and what that cost, who waits and why, and "
      "what of the cluster no job can use; only reads; exit code 0, or 2: no report");
  audit->add_option("input", audit_flags.inputs,
                    "Dumps (kubectl get -o json), folders of them, - for standard input; none: the "
                    "cluster of the kubeconfig");
  audit->add_option("--kubeconfig", audit_flags.kubeconfig,
                    "Kubeconfig file; default: KUBECONFIG, then ~/.kube/config");
  audit->add_option("--context", audit_flags.context, "Context of the kubeconfig");
  audit->add_option("-n,--namespace", audit_flags.ns, "Of the cluster only this namespace");
  audit->add_option("--prices", audit_flags.prices,
                    "JSON or YAML: {currency, prices: [{resource, nodeLabels, perHour}]}; default: "
                    "made-up examples");
  audit->add_option("--at", audit_flags.at,
                    "Time of a dump, RFC 3339; default: the newest time in it");
  audit->add_option("--tolerance", audit_flags.tolerance,
                    "Starts that take no longer than this are whole (default 10s)");
  audit->add_flag("--count-work-queues", audit_flags.count_work_queues,
                  "Judge also Jobs whose pods may work alone");
  audit->add_flag("--how-to-dump", audit_flags.how_to_dump,
                  "Print the commands that make a dump without secrets, and end");
  audit->add_option("-o,--output", audit_flags.output, "text, json or html")
      ->check(CLI::IsMember({"text", "json", "html"}));
  audit->add_option("--html", audit_flags.html, "Write the HTML page to this file, too");
  audit->add_option("--propose", audit_flags.propose,
                    "Write manifests of queues, and of the jobs in them, into this new folder");
  audit->add_option("--width", audit_flags.width, "Columns of the text; default: the terminal's")
      ->check(CLI::Range(60, 400));
  DoctorFlags doctor_flags;
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "Say what of a cluster's control plane can be used, what is missing, and which flags change "
      "it; exit code 0: nothing is missing, 1: something is, 2: no answer");
  doctor->add_option("--kubeconfig", doctor_flags.kubeconfig,
                     "Kubeconfig file; default: KUBECONFIG, then ~/.kube/config");
  doctor->add_option("--context", doctor_flags.context, "Context of the kubeconfig");
  doctor->add_option("-n,--namespace", doctor_flags.ns, "Namespace of the operator");
  doctor->add_option("-o,--output", doctor_flags.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  FitFlags fit_flags;
  CLI::App* fit = app.add_subcommand(
      "fit",
      "Say whether Jobs or Workloads fit a cluster now, and what is missing if not; exit "
      "code 0: all fit, 1: some don't, 2: bad input");
  fit->add_option(
      "-f,--filename", fit_flags.files,
      "YAML or JSON with Nodes, Pods, and the Jobs or Workloads to place; - is standard "
      "input; may be repeated");
  fit->add_option("-o,--output", fit_flags.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  fit->add_flag("--batch", fit_flags.batch,
                "One JSON object a line on standard input, {\"id\": …, \"items\": […]}, one answer "
                "a line");
  MeasureFlags measure_flags;
  CLI::App* measure = app.add_subcommand(
      "measure",
      "Keep watching a cluster, or read dumps of it made at different times, and write a ledger: "
      "starts, accelerator-hours, waits, evictions; of the cluster it only reads; Ctrl-C ends it");
  measure->add_option("input", measure_flags.inputs,
                      "Dumps in the order of time: files or folders each, or a folder of such "
                      "folders; none: watch the cluster of the kubeconfig");
  measure->add_option("--ledger", measure_flags.ledger,
                      "File to write to; one that exists is gone on with (default "
                      "tutti-measure.db)");
  measure->add_option("--kubeconfig", measure_flags.kubeconfig,
                      "Kubeconfig file; default: KUBECONFIG, then ~/.kube/config");
  measure->add_option("--context", measure_flags.context, "Context of the kubeconfig");
  measure->add_option("-n,--namespace", measure_flags.ns, "Of the cluster only this namespace");
  measure->add_option("--every", measure_flags.every, "Write so often (default 15s)");
  measure->add_option("--for", measure_flags.run_for, "End after this time; default: never");
  const auto add_view_flags = [](CLI::App& command, LedgerViewFlags& view) {
    command.add_option("--prices", view.prices,
                       "JSON or YAML as for audit; default: made-up examples");
    command.add_option("--tolerance", view.tolerance,
                       "Starts that take no longer than this are whole (default 10s)");
    command.add_flag("--count-work-queues", view.count_work_queues,
                     "Judge also Jobs whose pods may work alone");
    command.add_option("-o,--output", view.output, "text or json")
        ->check(CLI::IsMember({"text", "json"}));
    command.add_option("--width", view.width, "Columns of the text; default: the terminal's")
        ->check(CLI::Range(60, 400));
  };
  MeasureReportFlags report_flags;
  CLI::App* measure_report = measure->add_subcommand("report", "Show what is in a ledger");
  measure_report->add_option("ledger", report_flags.ledger, "The ledger")->required();
  measure_report->add_option("--from", report_flags.from, "RFC 3339; default: its begin");
  measure_report->add_option("--to", report_flags.to, "RFC 3339; default: its end");
  measure_report->add_option("--every", report_flags.every,
                             "Also a row for each so long, such as 24h");
  add_view_flags(*measure_report, report_flags.view);
  measure->require_subcommand(0, 1);
  CompareFlags compare_flags;
  CLI::App* compare = app.add_subcommand(
      "compare",
      "Compare two ledgers of `tutti measure`, or two windows of one: before and after, and "
      "whether the load lets them be compared");
  compare->add_option("a", compare_flags.a, "LEDGER, or LEDGER@FROM..TO with RFC 3339 times")
      ->required();
  compare->add_option("b", compare_flags.b, "The same")->required();
  add_view_flags(*compare, compare_flags.view);
  ObserveFlags observe_flags;
  CLI::App* observe = app.add_subcommand("observe",
                                         "Say how many decisions of the live controller Tutti "
                                         "would have taken as well (mode Observe), "
                                         "and list the others");
  observe->add_option("ledger", observe_flags.ledger,
                      "The observing operator's ledger (default /var/lib/tutti/ledger.db)");
  observe->add_option("--last", observe_flags.last, "So many decisions (default 1000)")
      ->check(CLI::Range(1, 10'000'000));
  observe->add_option("-o,--output", observe_flags.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  observe
      ->add_option("--width", observe_flags.width, "Columns of the text; default: the terminal's")
      ->check(CLI::Range(60, 400));
  SimulateFlags simulate_flags;
  CLI::App* simulate = app.add_subcommand(
      "simulate",
      "Play jobs on queues and nodes in virtual time, with the controller's own engine: when each "
      "would start, why it waits, how much of the quota is used");
  simulate->add_option("-f,--filename", simulate_flags.files,
                       "YAML or JSON with queues, nodes and jobs; - is standard input; may be "
                       "repeated");
  simulate->add_option("--until", simulate_flags.until, "End after this time, e.g. 24h");
  simulate->add_option("-o,--output", simulate_flags.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  simulate->add_flag("--fair-sharing", simulate_flags.fair_sharing,
                     "Share fairly between ClusterQueues (configuration section fairSharing)");
  simulate->add_flag("--batch", simulate_flags.batch,
                     "One JSON object a line on standard input, {\"id\": …, \"items\": […], "
                     "\"steps\": […]}, one answer a line");
  WhyFlags why_flags;
  CLI::App* why = app.add_subcommand(
      "why",
      "Say why a job waits, what is short, who has it, and the smallest changes that would start "
      "the job; only reads; exit code 0, or 2: no answer");
  why->add_option("target", why_flags.target,
                  "job/NAME, jobset/NAME, statefulset/NAME, workload/NAME, pod/NAME, queue/NAME or "
                  "clusterqueue/NAME")
      ->required();
  why->add_option("input", why_flags.inputs,
                  "Dumps (tutti audit --how-to-dump), folders of them, - for standard input; none: "
                  "the cluster of the kubeconfig");
  why->add_option("--kubeconfig", why_flags.kubeconfig,
                  "Kubeconfig file; default: KUBECONFIG, then ~/.kube/config");
  why->add_option("--context", why_flags.context, "Context of the kubeconfig");
  why->add_option("-n,--namespace", why_flags.ns, "Namespace of the target (default default)");
  why->add_option("--config", why_flags.config,
                  "The controller's configuration file, Tutti's or Kueue's; default: the defaults")
      ->check(CLI::ExistingFile);
  why->add_option("--at", why_flags.at, "Time of a dump, RFC 3339; default: the newest time in it");
  why->add_flag("--quota-only", why_flags.quota_only,
                "Decide by quota alone, as Kueue without topologies does: places on nodes don't "
                "count");
  why->add_option("--trials", why_flags.trials, "At most so many changes are tried (default 400)")
      ->check(CLI::Range(0, 100000));
  why->add_option("-o,--output", why_flags.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  why->add_option("--width", why_flags.width, "Columns of the text; default: the terminal's")
      ->check(CLI::Range(60, 400));
  CLI::App* version = app.add_subcommand("version", "Print the version");
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kExitUsage;
  }
  if (version->parsed()) {
    std::printf("tutti %s (%s, %s)\n", kVersionText, kGitCommit, CompilerText().c_str());
    return 0;
  }
  if (audit->parsed()) {
    return RunAudit(audit_flags);
  }
  if (doctor->parsed()) {
    return RunDoctor(doctor_flags);
  }
  if (fit->parsed()) {
    return RunFit(fit_flags);
  }
  if (measure_report->parsed()) {
    return RunMeasureReport(report_flags);
  }
  if (measure->parsed()) {
    return RunMeasure(measure_flags);
  }
  if (observe->parsed()) {
    return RunObserve(observe_flags);
  }
  if (compare->parsed()) {
    return RunCompare(compare_flags);
  }
  if (simulate->parsed()) {
    return RunSimulate(simulate_flags);
  }
  if (why->parsed()) {
    return RunWhy(why_flags);
  }
  return RunOperator(flags);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  return tutti::Main(argc, argv);
}
