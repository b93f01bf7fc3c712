// SPDX-License-Identifier: Apache-2.0
#include "kube/client.h"

#include <memory>
#include <utility>

#include "base/json_lenient.h"

namespace tutti::kube {
namespace {

ErrorCode CodeOf(int status, std::string_view reason) {
  switch (status) {
    case 401:
    case 403:
      return ErrorCode::kForbidden;
    case 404:
      return ErrorCode::kNotFound;
    case 408:
    case 504:
      return ErrorCode::kTimeout;
    case 409:
      return reason == "AlreadyExists" ? ErrorCode::kAlreadyExists : ErrorCode::kConflict;
    case 410:
      return ErrorCode::kExpired;
    case 429:
      return ErrorCode::kThrottled;
    default:
      break;
  }
  if (status >= 500) {
    return ErrorCode::kUnavailable;
  }
  return status >= 400 ? ErrorCode::kInvalid : ErrorCode::kInternal;
}

void AddParameter(std::string& target, std::string_view name, std::string_view value) {
  target += target.find('?') == std::string::npos ? '?' : '&';
  target.append(name).append("=").append(PercentEncode(value));
}

}  // namespace

std::string PercentEncode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
        c == '_' || c == '.' || c == '~') {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

std::string ListTarget(const api::Resource& resource, const ListOptions& options) {
  std::string target = resource.Path(options.ns);
  if (options.limit > 0) {
    AddParameter(target, "limit", std::to_string(options.limit));
  }
  if (!options.continue_token.empty()) {
    AddParameter(target, "continue", options.continue_token);
  } else if (!options.resource_version.empty()) {
    AddParameter(target, "resourceVersion", options.resource_version);
  }
  if (!options.label_selector.empty()) {
    AddParameter(target, "labelSelector", options.label_selector);
  }
  if (!options.field_selector.empty()) {
    AddParameter(target, "fieldSelector", options.field_selector);
  }
  return target;
}

std::string WatchTarget(const api::Resource& resource, const WatchRequest& request) {
  std::string target = resource.Path(request.ns);
  AddParameter(target, "watch", "1");
  AddParameter(target, "allowWatchBookmarks", "true");
  AddParameter(target, "timeoutSeconds", std::to_string(request.timeout_seconds));
  if (request.send_initial_events) {
    AddParameter(target, "sendInitialEvents", "true");
    AddParameter(target, "resourceVersionMatch", "NotOlderThan");
  }
  if (!request.resource_version.empty()) {
    AddParameter(target, "resourceVersion", request.resource_version);
  }
  if (!request.label_selector.empty()) {
    AddParameter(target, "labelSelector", request.label_selector);
  }
  if (!request.field_selector.empty()) {
    AddParameter(target, "fieldSelector", request.field_selector);
  }
  return target;
}

HttpRequest ToHttp(const api::WriteRequest& request) {
  HttpRequest out;
  const bool create = request.verb == api::Verb::kCreate;
  const bool collection = create && request.subresource.empty();
  out.target = request.resource.Path(request.key.ns, collection ? "" : request.key.name,
                                     request.subresource);
  out.content_type = "application/json";
  switch (request.verb) {
    case api::Verb::kCreate:
      out.method = "POST";
      break;
    case api::Verb::kUpdate:
      out.method = "PUT";
      break;
    case api::Verb::kApply:
      out.method = "PATCH";
      out.content_type = "application/apply-patch+yaml";
      AddParameter(out.target, "force", "true");
      break;
    case api::Verb::kMergePatch:
      out.method = "PATCH";
      out.content_type = "application/merge-patch+json";
      break;
    case api::Verb::kJsonPatch:
      out.method = "PATCH";
      out.content_type = "application/json-patch+json";
      break;
    case api::Verb::kDelete: {
      out.method = "DELETE";
      Json options = Json::Obj({{"apiVersion", "v1"}, {"kind", "DeleteOptions"}});
      if (request.body.IsObject()) {
        for (const auto& [name, value] : request.body.AsObject()) {
          // {"uid": …} and {"resourceVersion": …} are preconditions, the rest are options.
          if (name == "uid" || name == "resourceVersion") {
            options.At("preconditions").Set(name, value);
          } else {
            options.Set(name, value);
          }
        }
      }
      if (!options.Has("propagationPolicy")) {
        options.Set("propagationPolicy", "Background");
      }
      out.body = options.Dump();
      return out;
    }
  }
  if (!request.field_manager.empty()) {
    AddParameter(out.target, "fieldManager", request.field_manager);
  }
  out.body = request.body.Dump();
  return out;
}

Error ErrorFromStatus(const Json& status, int http_status,
                      std::optional<std::chrono::milliseconds> retry_after) {
  Error error;
  error.http_status = http_status != 0 ? http_status : static_cast<int>(status["code"].AsInt());
  error.code = CodeOf(error.http_status, status["reason"].AsString());
  error.message = status["message"].AsString();
  error.retry_after = retry_after;
  const Json& details = status["details"];
  if (const int64_t seconds = details["retryAfterSeconds"].AsInt(); seconds > 0) {
    error.retry_after = std::chrono::seconds(seconds);
  }
  for (const Json& cause : details["causes"].AsArray()) {
    const std::string& field = cause["field"].AsString();
    const std::string& text = cause["message"].AsString();
    if (error.message.find(text) == std::string::npos) {
      error.message += "; " + (field.empty() ? "" : field + ": ") + text;
    }
  }
  if (error.message.empty()) {
    error.message = "HTTP " + std::to_string(error.http_status);
  }
  return error;
}

Result<Json> DecodeAnswer(Result<HttpResponse> answer) {
  if (!answer) {
    return Fail(std::move(answer.error()));
  }
  Result<Json> json = ParseLenient(answer->body);
  if (answer->status >= 200 && answer->status < 300) {
    if (!json) {
      return Fail(json.error().With("answer of the API server"));
    }
    return json;
  }
  if (json && (*json)["kind"].AsString() == "Status") {
    return Fail(ErrorFromStatus(*json, answer->status, answer->retry_after));
  }
  // A proxy's page, or the plain text of a server that is starting or overloaded.
  std::string text = answer->body.substr(0, 300);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
    text.pop_back();
  }
  return Fail(Error{CodeOf(answer->status, ""),
                    "HTTP " + std::to_string(answer->status) + (text.empty() ? "" : ": " + text),
                    answer->status, answer->retry_after});
}

RequestId Client::GetPath(std::string target, JsonCallback done,
                          std::chrono::milliseconds timeout) {
  HttpRequest request;
  request.target = std::move(target);
  request.timeout = timeout;
  return transport_.Send(std::move(request), [done = std::move(done)](Result<HttpResponse> answer) {
    done(DecodeAnswer(std::move(answer)));
  });
}

RequestId Client::Get(const api::Resource& resource, const api::ObjectKey& key, JsonCallback done,
                      std::chrono::milliseconds timeout) {
  return GetPath(resource.Path(key.ns, key.name), std::move(done), timeout);
}

RequestId Client::List(const api::Resource& resource, const ListOptions& options,
                       JsonCallback done) {
  return GetPath(ListTarget(resource, options), std::move(done), kListTimeout);
}

RequestId Client::Do(const api::WriteRequest& request, JsonCallback done,
                     std::chrono::milliseconds timeout) {
  HttpRequest http = ToHttp(request);
  http.timeout = timeout;
  return transport_.Send(std::move(http), [done = std::move(done)](Result<HttpResponse> answer) {
    done(DecodeAnswer(std::move(answer)));
  });
}

RequestId Client::Watch(const api::Resource& resource, const WatchRequest& request,
                        StreamCallbacks callbacks) {
  HttpRequest http;
  http.target = WatchTarget(resource, request);
  http.timeout = request.idle_timeout;
  return transport_.OpenStream(std::move(http), std::move(callbacks));
}

namespace {

// The pages of one ListAll; kept alive by the callback of the page that is under way.
struct Pages : std::enable_shared_from_this<Pages> {
  Client* client = nullptr;
  api::Resource resource;
  ListOptions options;
  JsonCallback done;
  Json::Array items;
  bool restarted = false;

  void Next() {
    client->List(resource, options,
                 [self = shared_from_this()](Result<Json> page) { self->OnPage(std::move(page)); });
  }

  void OnPage(Result<Json> page) {
    if (!page) {
      if (page.error().code == ErrorCode::kExpired && !restarted) {
        restarted = true;
        items.clear();
        options.continue_token.clear();
        Next();
        return;
      }
      done(std::move(page));
      return;
    }
    Json& found = page->At("items");
    if (found.IsArray()) {
      for (Json& item : found.MutableArray()) {
        items.push_back(std::move(item));
      }
    }
    options.continue_token = (*page)["metadata"]["continue"].AsString();
    if (!options.continue_token.empty()) {
      Next();
      return;
    }
    page->Set("items", Json(std::move(items)));
    done(std::move(page));
  }
};

}  // namespace

void Client::ListAll(const api::Resource& resource, ListOptions options, JsonCallback done) {
  auto pages = std::make_shared<Pages>();
  pages->client = this;
  pages->resource = resource;
  pages->options = std::move(options);
  pages->done = std::move(done);
  pages->Next();
}

}  // namespace tutti::kube
