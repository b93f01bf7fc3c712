// SPDX-License-Identifier: Apache-2.0
#include "kube/kubeconfig.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tutti::kube {
namespace {

class KubeconfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() /
           ("kubeconfig_test." + std::to_string(reinterpret_cast<uintptr_t>(this)) + "." +
            std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = dir_ / name;
    std::ofstream(path) << text;
    return path;
  }
  // A config whose cluster and user have these members (YAML flow style).
  static std::string Config(const std::string& cluster, const std::string& user) {
    return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
           "contexts: [{name: c, context: {cluster: k, user: u, namespace: team}}]\n"
           "clusters: [{name: k, cluster: {" +
           cluster +
           "}}]\n"
           "users: [{name: u, user: {" +
           user + "}}]\n";
  }
  static std::string Problem(const std::string& text, const std::string& context = "") {
    const auto access = ParseKubeconfig(text, "/x/config", context);
    return access ? "" : access.error().message;
  }
  std::filesystem::path dir_;
};

constexpr const char* kCluster = "server: 'https://h:6443', certificate-authority-data: Q0E=";

TEST_F(KubeconfigTest, ReadsClusterUserAndNamespaceOfTheCurrentContext) {
  const auto access = ParseKubeconfig(
      Config(std::string(kCluster) + ", tls-server-name: api",
             "token: abc, client-certificate-data: Q0VSVA==, client-key-data: S0VZ"),
      "/x/config");
  ASSERT_TRUE(access.has_value()) << access.error().message;
  EXPECT_EQ(access->server, "https://h:6443");
  EXPECT_EQ(access->ca_pem, "CA");
  EXPECT_EQ(access->tls_server_name, "api");
  EXPECT_EQ(access->token, "abc");
  EXPECT_EQ(access->client_cert_pem, "CERT");
  EXPECT_EQ(access->client_key_pem, "KEY");
  EXPECT_EQ(access->ns, "team");
}

TEST_F(KubeconfigTest, FilesAreRelativeToTheConfig) {
  Write("ca.pem", "the ca");
  const std::string path = Write(
      "config", Config("server: 'https://h', certificate-authority: ca.pem", "tokenFile: tok"));
  const auto access = LoadKubeconfig(path);
  ASSERT_TRUE(access.has_value()) << access.error().message;
  EXPECT_EQ(access->ca_pem, "the ca");
  EXPECT_EQ(access->token_file, (dir_ / "tok").string());
}

TEST_F(KubeconfigTest, ErrorsNameTheFileAndTheField) {
  const std::pair<std::string, std::string> kTable[] = {
      {"- a list", "kubeconfig"},
      {"{", "/x/config: "},
      {"apiVersion: v1", "current-context"},
      {Config("certificate-authority-data: Q0E=", ""), "clusters[k].cluster.server: is missing"},
      {Config("server: 'https://h'", ""), "clusters[k].cluster.certificate-authority: is missing"},
      {Config("server: 'https://h', certificate-authority-data: '!!'", ""),
       "clusters[k].cluster.certificate-authority-data: not base64"},
      {Config("server: 'https://h', certificate-authority: nofile", ""), "/x/nofile"},
      {Config(std::string(kCluster) + ", proxy-url: 'http://p'", ""),
       "proxy-url: is not supported"},
      {Config(std::string(kCluster) + ", insecure-skip-tls-verify: true", ""),
       "insecure-skip-tls-verify"},
      {Config(std::string(kCluster) + ", insecure-skip-tls-verify: maybe", ""),
       "'maybe' must be true or false"},
      {Config(kCluster, "username: me"), "users[u].user.username: is not supported"},
      {Config(kCluster, "client-certificate-data: Q0E="), "users[u].user.client-key: is missing"},
      {Config(kCluster, "exec: {apiVersion: v0, command: x}"), "users[u].user.exec.apiVersion"},
      {Config(kCluster, "exec: {apiVersion: client.authentication.k8s.io/v1}"),
       "users[u].user.exec.command: is missing"},
  };
  for (const auto& [text, part] : kTable) {
    const std::string problem = Problem(text);
    EXPECT_NE(problem.find(part), std::string::npos) << problem << " lacks " << part;
    EXPECT_NE(problem.find("/x/config"), std::string::npos) << problem;
  }
  EXPECT_NE(Problem(Config(kCluster, ""), "other").find("contexts: has no entry named 'other'"),
            std::string::npos);
  EXPECT_NE(LoadKubeconfig("/nowhere/config").error().message.find("/nowhere/config"),
            std::string::npos);
}

TEST_F(KubeconfigTest, InClusterReadsTheServiceAccount) {
  Write("token", "tok\n");
  Write("ca.crt", "ca");
  Write("namespace", "here");
  const auto env = [](const char* name) -> const char* {
    return std::string(name) == "KUBERNETES_SERVICE_HOST" ? "fd00::1" : "443";
  };
  const auto access = LoadInCluster(dir_, env);
  ASSERT_TRUE(access.has_value()) << access.error().message;
  EXPECT_EQ(access->server, "https://[fd00::1]:443");
  EXPECT_EQ(access->token, "tok");
  EXPECT_EQ(access->token_file, (dir_ / "token").string());
  EXPECT_EQ(access->ns, "here");
  const auto outside = LoadInCluster(dir_, [](const char*) -> const char* { return nullptr; });
  EXPECT_NE(outside.error().message.find("--kubeconfig"), std::string::npos);
}

TEST_F(KubeconfigTest, AnExecPluginGivesAToken) {
  const std::string plugin =
      Write("plugin", "#!/bin/sh\necho \"{\\\"status\\\":{\\\"token\\\":\\\"$1-$WHO\\\"}}\"\n");
  std::filesystem::permissions(plugin, std::filesystem::perms::owner_all);
  const std::string path =
      Write("config", Config(kCluster,
                             "exec: {apiVersion: client.authentication.k8s.io/v1, "
                             "command: ./plugin, args: [a], env: [{name: WHO, value: me}]}"));
  auto access = LoadKubeconfig(path);
  ASSERT_TRUE(access.has_value()) << access.error().message;
  ASSERT_TRUE(access->exec.has_value());
  const Status status = RunExecPlugin(*access);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(access->token, "a-me");
  EXPECT_FALSE(access->exec.has_value());
}

TEST_F(KubeconfigTest, AFailingExecPluginIsNamed) {
  ClusterAccess access;
  access.exec =
      ExecPlugin{"client.authentication.k8s.io/v1", "/nowhere/login", {}, {}, "install it"};
  std::string message = RunExecPlugin(access).error().message;
  EXPECT_NE(message.find("/nowhere/login"), std::string::npos);
  EXPECT_NE(message.find("install it"), std::string::npos);
  access.exec->command = "false";
  message = RunExecPlugin(access).error().message;
  EXPECT_NE(message.find("status 1"), std::string::npos) << message;
}

}  // namespace
}  // namespace tutti::kube
