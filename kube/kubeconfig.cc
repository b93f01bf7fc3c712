// SPDX-License-Identifier: Apache-2.0
#include "kube/kubeconfig.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include "base/json.h"

extern char** environ;

namespace tutti::kube {
namespace {

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return Fail(ErrorCode::kNotFound, path + ": " + std::strerror(errno));
  }
  return std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Result<std::string> DecodeBase64(const std::string& text) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  size_t digits = 0;
  bool padding = false;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ') {
      continue;
    }
    if (c == '=') {
      padding = true;
      continue;
    }
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos || padding) {
      return Fail(ErrorCode::kInvalid, "not base64");
    }
    ++digits;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    have += 6;
    if (have >= 8) {
      have -= 8;
      out.push_back(static_cast<char>((bits >> have) & 0xff));
    }
  }
  if (digits % 4 == 1) {
    return Fail(ErrorCode::kInvalid, "not base64 (cut off)");
  }
  return out;
}

void StripSpace(std::string& text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.pop_back();
  }
}

// Reads one file; remembers its name and the field for messages.
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] Error Bad(const std::string& field, const std::string& what) const {
    return {ErrorCode::kInvalid, path_ + ": " + field + ": " + what, 0, {}};
  }

  Result<std::string> Text(const YAML::Node& map, const std::string& where, const char* key) const {
    const YAML::Node node = map[key];
    if (!node || node.IsNull()) {
      return std::string();
    }
    if (!node.IsScalar()) {
      return Fail(Bad(where + "." + key, "must be a string"));
    }
    return node.Scalar();
  }

  Result<bool> Flag(const YAML::Node& map, const std::string& where, const char* key) const {
    TRY_ASSIGN(const std::string text, Text(map, where, key));
    if (text.empty() || text == "false") {
      return false;
    }
    if (text == "true") {
      return true;
    }
    return Fail(Bad(where + "." + key, "'" + text + "' must be true or false"));
  }

  // <key>-data wins over <key>, as in kubectl.
  Result<std::string> FileOrData(const YAML::Node& map, const std::string& where,
                                 const std::string& key) const {
    TRY_ASSIGN(const std::string data, Text(map, where, (key + "-data").c_str()));
    if (!data.empty()) {
      Result<std::string> decoded = DecodeBase64(data);
      if (!decoded) {
        return Fail(Bad(where + "." + key + "-data", decoded.error().message));
      }
      return decoded;
    }
    TRY_ASSIGN(const std::string file, Text(map, where, key.c_str()));
    if (file.empty()) {
      return std::string();
    }
    Result<std::string> content = ReadFile(Resolve(file));
    if (!content) {
      return Fail(Bad(where + "." + key, content.error().message));
    }
    return content;
  }

  [[nodiscard]] std::string Resolve(const std::string& file) const {
    if (file.empty() || file.front() == '/') {
      return file;
    }
    const size_t slash = path_.rfind('/');
    return slash == std::string::npos ? file : path_.substr(0, slash + 1) + file;
  }

  // The entry of `list` with this name: its member `kind` ("cluster", "user", "context").
  Result<YAML::Node> Named(const YAML::Node& root, const char* list, const char* kind,
                           const std::string& name) const {
    const YAML::Node entries = root[list];
    if (entries && entries.IsSequence()) {
      for (const YAML::Node& entry : entries) {
        if (entry.IsMap() && entry["name"] && entry["name"].IsScalar() &&
            entry["name"].Scalar() == name) {
          const YAML::Node value = entry[kind];
          if (value && value.IsMap()) {
            return value;
          }
          return Fail(Bad(std::string(list) + "[" + name + "]." + kind, "is missing"));
        }
      }
    }
    return Fail(Bad(list, "has no entry named '" + name + "'"));
  }

  Status ReadCluster(const YAML::Node& cluster, const std::string& where,
                     ClusterAccess& out) const {
    TRY_ASSIGN(out.server, Text(cluster, where, "server"));
    if (out.server.empty()) {
      return Fail(Bad(where + ".server", "is missing"));
    }
    TRY_ASSIGN(out.ca_pem, FileOrData(cluster, where, "certificate-authority"));
    TRY_ASSIGN(out.insecure, Flag(cluster, where, "insecure-skip-tls-verify"));
    TRY_ASSIGN(out.tls_server_name, Text(cluster, where, "tls-server-name"));
    if (out.insecure && !out.ca_pem.empty()) {
      return Fail(
          Bad(where + ".insecure-skip-tls-verify", "can't be combined with certificate-authority"));
    }
    if (out.server.rfind("https://", 0) == 0 && !out.insecure && out.ca_pem.empty()) {
      return Fail(
          Bad(where + ".certificate-authority", "is missing; the system's CA files are not used"));
    }
    TRY_ASSIGN(const std::string proxy, Text(cluster, where, "proxy-url"));
    if (!proxy.empty()) {
      return Fail(Bad(where + ".proxy-url", "is not supported"));
    }
    return {};
  }

  Status ReadUser(const YAML::Node& user, const std::string& where, ClusterAccess& out) const {
    TRY_ASSIGN(out.client_cert_pem, FileOrData(user, where, "client-certificate"));
    TRY_ASSIGN(out.client_key_pem, FileOrData(user, where, "client-key"));
    if (out.client_cert_pem.empty() != out.client_key_pem.empty()) {
      return Fail(Bad(where + (out.client_key_pem.empty() ? ".client-key" : ".client-certificate"),
                      "is missing beside its other half"));
    }
    TRY_ASSIGN(out.token, Text(user, where, "token"));
    TRY_ASSIGN(const std::string token_file, Text(user, where, "tokenFile"));
    out.token_file = Resolve(token_file);
    for (const char* gone : {"username", "password", "auth-provider", "as"}) {
      if (user[gone]) {
        return Fail(Bad(where + "." + gone,
                        "is not supported; use token, tokenFile, a client certificate or exec"));
      }
    }
    if (const YAML::Node exec = user["exec"]) {
      return ReadExec(exec, where + ".exec", out);
    }
    return {};
  }

  Status ReadExec(const YAML::Node& exec, const std::string& where, ClusterAccess& out) const {
    if (!exec.IsMap()) {
      return Fail(Bad(where, "must be a map"));
    }
    ExecPlugin plugin;
    TRY_ASSIGN(plugin.api_version, Text(exec, where, "apiVersion"));
    TRY_ASSIGN(plugin.command, Text(exec, where, "command"));
    TRY_ASSIGN(plugin.install_hint, Text(exec, where, "installHint"));
    if (plugin.command.empty()) {
      return Fail(Bad(where + ".command", "is missing"));
    }
    if (plugin.api_version != "client.authentication.k8s.io/v1" &&
        plugin.api_version != "client.authentication.k8s.io/v1beta1") {
      return Fail(
          Bad(where + ".apiVersion",
              "'" + plugin.api_version + "' is not client.authentication.k8s.io/v1 or v1beta1"));
    }
    if (const YAML::Node args = exec["args"]; args && args.IsSequence()) {
      for (const YAML::Node& arg : args) {
        if (!arg.IsScalar()) {
          return Fail(Bad(where + ".args", "must be strings"));
        }
        plugin.args.push_back(arg.Scalar());
      }
    }
    if (const YAML::Node env = exec["env"]; env && env.IsSequence()) {
      for (const YAML::Node& entry : env) {
        if (!entry.IsMap()) {
          return Fail(Bad(where + ".env", "must be a list of name and value"));
        }
        TRY_ASSIGN(const std::string name, Text(entry, where + ".env[]", "name"));
        TRY_ASSIGN(const std::string value, Text(entry, where + ".env[]", "value"));
        plugin.env.emplace_back(name, value);
      }
    }
    // A command with a path but not absolute is relative to the file.
    if (plugin.command.find('/') != std::string::npos) {
      plugin.command = Resolve(plugin.command);
    }
    out.exec = std::move(plugin);
    return {};
  }

  Result<ClusterAccess> Read(const std::string& text, const std::string& wanted) const {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap()) {
      return Fail(Bad("the file", "is not a kubeconfig (a map with clusters, users, contexts)"));
    }
    std::string name = wanted;
    if (name.empty()) {
      TRY_ASSIGN(name, Text(root, "kubeconfig", "current-context"));
    }
    if (name.empty()) {
      return Fail(Bad("current-context", "is missing; set it or name a context"));
    }
    TRY_ASSIGN(const YAML::Node context, Named(root, "contexts", "context", name));
    const std::string where = "contexts[" + name + "].context";
    TRY_ASSIGN(const std::string cluster_name, Text(context, where, "cluster"));
    TRY_ASSIGN(const std::string user_name, Text(context, where, "user"));
    TRY_ASSIGN(const std::string ns, Text(context, where, "namespace"));
    ClusterAccess out;
    if (!ns.empty()) {
      out.ns = ns;
    }
    TRY_ASSIGN(const YAML::Node cluster, Named(root, "clusters", "cluster", cluster_name));
    TRY(ReadCluster(cluster, "clusters[" + cluster_name + "].cluster", out));
    if (!user_name.empty()) {
      TRY_ASSIGN(const YAML::Node user, Named(root, "users", "user", user_name));
      TRY(ReadUser(user, "users[" + user_name + "].user", out));
    }
    return out;
  }

 private:
  std::string path_;
};

}  // namespace

Result<ClusterAccess> ParseKubeconfig(const std::string& text, const std::string& path,
                                      const std::string& context) {
  try {
    return Reader(path).Read(text, context);
  } catch (const YAML::Exception& e) {
    return Fail(ErrorCode::kInvalid, path + ": " + e.what());
  }
}

Result<ClusterAccess> LoadKubeconfig(const std::string& path, const std::string& context) {
  Result<std::string> text = ReadFile(path);
  if (!text) {
    return Fail(text.error().With("kubeconfig"));
  }
  return ParseKubeconfig(*text, path, context);
}

Result<ClusterAccess> LoadInCluster(const std::string& root,
                                    const std::function<const char*(const char*)>& getenv) {
  const auto env = [&](const char* name) -> std::string {
    const char* value = getenv ? getenv(name) : ::getenv(name);
    return value != nullptr ? value : "";
  };
  const std::string host = env("KUBERNETES_SERVICE_HOST");
  const std::string port = env("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return Fail(ErrorCode::kInvalid,
                "not inside a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not "
                "set; pass --kubeconfig");
  }
  ClusterAccess out;
  out.server =
      "https://" + (host.find(':') != std::string::npos ? "[" + host + "]" : host) + ":" + port;
  TRY_ASSIGN(out.ca_pem, ReadFile(root + "/ca.crt"));
  out.token_file = root + "/token";
  TRY_ASSIGN(out.token, ReadFile(out.token_file));
  StripSpace(out.token);
  if (out.token.empty()) {
    return Fail(ErrorCode::kInvalid, out.token_file + ": is empty");
  }
  if (Result<std::string> ns = ReadFile(root + "/namespace")) {
    StripSpace(*ns);
    out.ns = *ns;
  }
  return out;
}

namespace {

// Runs the command, returns its standard output. Standard input and error stay the terminal's.
Result<std::string> RunCommand(const ExecPlugin& plugin) {
  std::vector<std::string> env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    env.emplace_back(*entry);
  }
  for (const auto& [name, value] : plugin.env) {
    env.push_back(name + "=" + value);
  }
  env.push_back("KUBERNETES_EXEC_INFO=" + Json::Obj({{"apiVersion", plugin.api_version},
                                                     {"kind", "ExecCredential"},
                                                     {"spec", Json::Obj({{"interactive", false}})}})
                                              .Dump());
  std::vector<std::string> words = {plugin.command};
  words.insert(words.end(), plugin.args.begin(), plugin.args.end());
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  for (std::string& entry : env) {
    envp.push_back(entry.data());
  }
  envp.push_back(nullptr);

  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) {
    return Fail(ErrorCode::kInternal, std::string("pipe: ") + std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
  pid_t pid = 0;
  const int rc =
      ::posix_spawnp(&pid, plugin.command.c_str(), &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(fds[1]);
  if (rc != 0) {
    ::close(fds[0]);
    return Fail(ErrorCode::kInvalid,
                "exec.command '" + plugin.command + "': " + std::strerror(rc) +
                    (plugin.install_hint.empty() ? "" : "\n" + plugin.install_hint));
  }
  std::string out;
  std::array<char, 4096> buffer{};
  ssize_t n = 0;
  while ((n = ::read(fds[0], buffer.data(), buffer.size())) > 0 || (n < 0 && errno == EINTR)) {
    if (n > 0) {
      out.append(buffer.data(), static_cast<size_t>(n));
    }
  }
  ::close(fds[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Fail(
        ErrorCode::kForbidden,
        "exec.command '" + plugin.command + "' failed with status " +
            std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)));
  }
  return out;
}

}  // namespace

Status CheckUsable(const ClusterAccess& access) {
  if (access.exec.has_value()) {
    return Fail(ErrorCode::kInvalid,
                "users[].user.exec: the plugin's credentials have not been fetched; a program that "
                "keeps running needs a token file or a client certificate");
  }
  return {};
}

Status RunExecPlugin(ClusterAccess& access) {
  if (!access.exec.has_value()) {
    return {};
  }
  TRY_ASSIGN(const std::string out, RunCommand(*access.exec));
  Result<Json> credential = Json::Parse(out);
  if (!credential) {
    return Fail(credential.error().With("exec.command '" + access.exec->command +
                                        "' printed no ExecCredential"));
  }
  const Json& status = (*credential)["status"];
  access.token = status["token"].AsString();
  access.client_cert_pem = status["clientCertificateData"].AsString();
  access.client_key_pem = status["clientKeyData"].AsString();
  if (access.token.empty() && access.client_cert_pem.empty()) {
    return Fail(ErrorCode::kForbidden, "exec.command '" + access.exec->command +
                                           "' gave neither status.token nor a client certificate");
  }
  access.exec.reset();
  return {};
}

}  // namespace tutti::kube
