// SPDX-License-Identifier: Apache-2.0
// Where the API server is and who we are: from a kubeconfig file or from a pod's service account.
// Plain values; files are read once, except token_file, which the transport reads again.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tutti::kube {

struct ExecPlugin {
  std::string api_version;
  std::string command;
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string install_hint;
};

struct ClusterAccess {
  std::string server;           // https://host:port, maybe with a path prefix
  std::string ca_pem;           // empty: nothing but `insecure` can work
  bool insecure = false;        // insecure-skip-tls-verify
  std::string tls_server_name;  // "" = the host of `server`
  std::string client_cert_pem;
  std::string client_key_pem;
  std::string token;
  std::string token_file;  // re-read at most once a minute: bound tokens rotate
  std::string ns = "default";
  std::optional<ExecPlugin> exec;  // resolved by RunExecPlugin (CLI only)
};

// `context` empty: current-context. Errors name the file and the field.
Result<ClusterAccess> LoadKubeconfig(const std::string& path, const std::string& context = {});
// The same from text; `path` is used in messages and to resolve relative file names.
Result<ClusterAccess> ParseKubeconfig(const std::string& text, const std::string& path,
                                      const std::string& context = {});
// Service account of the pod that we run in. `root` and `getenv` are replaced in tests.
Result<ClusterAccess> LoadInCluster(
    const std::string& root = "/var/run/secrets/kubernetes.io/serviceaccount",
    const std::function<const char*(const char*)>& getenv = {});
// kInvalid when a plugin's credentials are still to be fetched.
Status CheckUsable(const ClusterAccess& access);
// Runs the credential plugin and puts its token or certificate into `access`. Blocks. For the CLI:
// long-running programs use a token file or certificates and refuse `exec` by name.
Status RunExecPlugin(ClusterAccess& access);

}  // namespace tutti::kube
