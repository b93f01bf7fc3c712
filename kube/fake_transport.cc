// SPDX-License-Identifier: Apache-2.0
#include "kube/fake_transport.h"

#include <algorithm>
#include <cstdlib>

namespace tutti::kube {

struct FakeTransport::Parsed {
  std::string path;
  api::Resource resource;  // kind and namespaced are not known from a path
  api::ObjectKey key;
  std::string subresource;
  std::map<std::string, std::string> query;

  [[nodiscard]] std::string Query(const std::string& name) const {
    const auto it = query.find(name);
    return it == query.end() ? "" : it->second;
  }
};

struct FakeTransport::Stream {
  RequestId id = 0;
  Parsed parsed;
  StreamCallbacks callbacks;
  Duration idle{};
  Time last_activity = kNoTime;
  bool live = false;  // the answer has begun: changes are delivered from here on
};

namespace {

std::string Decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out +=
          static_cast<char>(std::strtol(std::string(text.substr(i + 1, 2)).c_str(), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) {
      out.push_back(Decode(text.substr(0, end)));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string_view Reason(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kAlreadyExists:
      return "AlreadyExists";
    case ErrorCode::kConflict:
      return "Conflict";
    case ErrorCode::kExpired:
      return "Expired";
    case ErrorCode::kThrottled:
      return "TooManyRequests";
    case ErrorCode::kTimeout:
      return "Timeout";
    case ErrorCode::kForbidden:
      return "Forbidden";
    case ErrorCode::kInvalid:
      return "Invalid";
    default:
      return "InternalError";
  }
}

int HttpOf(const Error& error) {
  if (error.http_status != 0) {
    return error.http_status;
  }
  switch (error.code) {
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kExpired:
      return 410;
    case ErrorCode::kThrottled:
      return 429;
    case ErrorCode::kTimeout:
      return 504;
    case ErrorCode::kForbidden:
      return 403;
    case ErrorCode::kInvalid:
      return 422;
    case ErrorCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

Json StatusOf(const Error& error) {
  Json status = Json::Obj({{"kind", "Status"},
                           {"apiVersion", "v1"},
                           {"status", "Failure"},
                           {"message", error.message},
                           {"reason", Reason(error.code)},
                           {"code", HttpOf(error)}});
  if (error.retry_after.has_value()) {
    const int64_t seconds = (error.retry_after->count() + 999) / 1000;
    status.Set("details", Json::Obj({{"retryAfterSeconds", seconds}}));
  }
  return status;
}

HttpResponse ToResponse(const Result<Json>& result) {
  if (result) {
    return {200, result->Dump(), std::nullopt};
  }
  return {HttpOf(result.error()), StatusOf(result.error()).Dump(), result.error().retry_after};
}

Json ListMeta(const std::string& version, const std::string& next) {
  Json meta = Json::Obj({{"resourceVersion", version}});
  if (!next.empty()) {
    meta.Set("continue", next);
  }
  return meta;
}

}  // namespace

FakeTransport::FakeTransport(Loop& loop, FakeApiServer& server)
    : loop_(loop),
      server_(server),
      apis_({{"scheduling.k8s.io/v1", {"priorityclasses"}},
             {"scheduling.k8s.io/v1alpha2", {"podgroups", "podgroups/status", "workloads"}},
             {"admissionregistration.k8s.io/v1",
              {"mutatingadmissionpolicies", "validatingadmissionpolicies"}},
             {"kueue.x-k8s.io/v1beta2",
              {"admissionchecks", "clusterqueues", "cohorts", "localqueues", "resourceflavors",
               "topologies", "workloadpriorityclasses", "workloads", "workloads/status"}}}) {
  server_.Subscribe([this, alive = std::weak_ptr<bool>(alive_)](const FakeApiServer::Event& event) {
    if (!alive.expired()) {
      OnEvent(event);
    }
  });
}

FakeTransport::~FakeTransport() {
  alive_.reset();
}

void FakeTransport::Later(std::function<void()> fn) {
  auto guarded = [alive = std::weak_ptr<bool>(alive_), fn = std::move(fn)] {
    if (!alive.expired()) {
      fn();
    }
  };
  if (delay_ > Duration::zero()) {
    loop_.PostAt(loop_.Now() + delay_, std::move(guarded));
  } else {
    loop_.Post(std::move(guarded));
  }
}

FakeTransport::Parsed FakeTransport::ParseTarget(const std::string& target) {
  Parsed out;
  const size_t mark = target.find('?');
  out.path = target.substr(0, mark);
  if (mark != std::string::npos) {
    std::string_view rest = std::string_view(target).substr(mark + 1);
    while (!rest.empty()) {
      const std::string_view pair = rest.substr(0, rest.find('&'));
      const size_t equals = std::min(pair.find('='), pair.size());
      out.query[Decode(pair.substr(0, equals))] =
          Decode(pair.substr(std::min(equals + 1, pair.size())));
      rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    }
  }
  std::vector<std::string> parts = Split(out.path, '/');
  size_t at = 0;
  if (parts.size() >= 2 && parts[0] == "api") {
    out.resource.version = parts[1];
    at = 2;
  } else if (parts.size() >= 3 && parts[0] == "apis") {
    out.resource.group = parts[1];
    out.resource.version = parts[2];
    at = 3;
  }
  const size_t left = parts.size() - at;
  if (at == 0 || left == 0) {
    return out;
  }
  out.resource.namespaced = false;
  if (parts[at] == "namespaces" && left >= 3 && parts[at + 2] != "status") {
    out.key.ns = parts[at + 1];
    out.resource.namespaced = true;
    at += 2;
  }
  out.resource.plural = parts[at];
  if (at + 1 < parts.size()) {
    out.key.name = parts[at + 1];
  }
  if (at + 2 < parts.size()) {
    out.subresource = parts[at + 2];
  }
  return out;
}

RequestId FakeTransport::Send(HttpRequest request, std::function<void(Result<HttpResponse>)> done) {
  const RequestId id = next_id_++;
  requests_.push_back(request.method + " " + request.target);
  pending_[id] = std::move(done);
  std::optional<Result<HttpResponse>> answer;
  if (closed_) {
    answer = Fail(ErrorCode::kCancelled, "closed");
  } else if (intercept_) {
    answer = intercept_(request);
  }
  Later([this, id, request = std::move(request), answer = std::move(answer)]() mutable {
    const auto it = pending_.find(id);
    if (it == pending_.end()) {
      return;
    }
    // The server sees the request at the moment of its answer.
    if (!answer.has_value()) {
      answer = Answer(request);
    }
    const auto callback = std::move(it->second);
    pending_.erase(it);
    callback(std::move(*answer));
  });
  return id;
}

std::optional<HttpResponse> FakeTransport::Discover(const std::string& path) const {
  if (path == "/version") {
    return ToResponse(Json::Obj({{"major", "1"}, {"minor", "36"}, {"gitVersion", "v1.36.3"}}));
  }
  if (path == "/apis") {
    Json groups = Json::Arr();
    for (const auto& [group_version, plurals] : apis_) {
      const size_t slash = group_version.find('/');
      const std::string group = group_version.substr(0, slash);
      const Json version = Json::Obj(
          {{"groupVersion", group_version}, {"version", group_version.substr(slash + 1)}});
      Json* known = nullptr;
      for (Json& item : groups.MutableArray()) {
        known = item["name"].AsString() == group ? &item : known;
      }
      if (known != nullptr) {
        known->At("versions").Push(version);
      } else {
        groups.Push(Json::Obj({{"name", group}, {"versions", Json::Arr({version})}}));
      }
    }
    return ToResponse(Json::Obj({{"kind", "APIGroupList"}, {"groups", groups}}));
  }
  const std::vector<std::string> parts = Split(path, '/');
  if (parts.size() == 2 && parts[0] == "apis") {
    Json versions = Json::Arr();
    for (const auto& [group_version, plurals] : apis_) {
      if (group_version.rfind(parts[1] + "/", 0) == 0) {
        versions.Push(Json::Obj({{"groupVersion", group_version},
                                 {"version", group_version.substr(parts[1].size() + 1)}}));
      }
    }
    if (versions.AsArray().empty()) {
      return ToResponse(Fail(Error{ErrorCode::kNotFound, "not found", 404, std::nullopt}));
    }
    return ToResponse(
        Json::Obj({{"kind", "APIGroup"}, {"name", parts[1]}, {"versions", versions}}));
  }
  if (parts.size() == 3 && parts[0] == "apis") {
    for (const auto& [group_version, plurals] : apis_) {
      if (group_version == parts[1] + "/" + parts[2]) {
        Json resources = Json::Arr();
        for (const std::string& plural : plurals) {
          resources.Push(Json::Obj({{"name", plural}}));
        }
        return ToResponse(Json::Obj({{"kind", "APIResourceList"}, {"resources", resources}}));
      }
    }
    return ToResponse(Fail(Error{ErrorCode::kNotFound, "not found", 404, std::nullopt}));
  }
  return std::nullopt;
}

HttpResponse FakeTransport::List(const Parsed& parsed) {
  const int limit = std::atoi(parsed.Query("limit").c_str());
  const std::string token = parsed.Query("continue");
  // "version|ns/name": the pages of one list show one version, changes in between come by watch.
  const size_t bar = token.find('|');
  const std::string version =
      bar == std::string::npos ? std::to_string(server_.Version()) : token.substr(0, bar);
  const std::string after = bar == std::string::npos ? "" : token.substr(bar + 1);
  if (bar != std::string::npos && !server_.EventsAfter(parsed.resource, std::stoll(version))) {
    return ToResponse(Fail(Error{ErrorCode::kExpired, "the continue token is too old", 410, {}}));
  }
  Json items = Json::Arr();
  std::string next;
  std::string last;
  for (Json& object : server_.List(parsed.resource, parsed.key.ns, parsed.Query("labelSelector"))) {
    const std::string name =
        object["metadata"]["namespace"].AsString() + "/" + object["metadata"]["name"].AsString();
    if (name <= after || !MatchesFieldSelector(object, parsed.Query("fieldSelector"))) {
      continue;
    }
    if (limit > 0 && items.AsArray().size() == static_cast<size_t>(limit)) {
      next = version + "|" + last;
      break;
    }
    items.Push(std::move(object));
    last = name;
  }
  return ToResponse(Json::Obj(
      {{"kind", "List"}, {"metadata", ListMeta(version, next)}, {"items", std::move(items)}}));
}

HttpResponse FakeTransport::Answer(const HttpRequest& http) {
  const auto parsed = ParseTarget(http.target);
  if (std::optional<HttpResponse> found = Discover(parsed.path)) {
    return *found;
  }
  if (parsed.resource.plural.empty()) {
    return ToResponse(Fail(Error{ErrorCode::kNotFound, "no such path", 404, {}}));
  }
  if (http.method == "GET") {
    return parsed.key.name.empty() ? List(parsed)
                                   : ToResponse(server_.Get(parsed.resource, parsed.key));
  }
  api::WriteRequest request;
  request.resource = parsed.resource;
  request.key = parsed.key;
  request.subresource = parsed.subresource;
  request.field_manager = parsed.Query("fieldManager");
  Result<Json> body = http.body.empty() ? Result<Json>(Json()) : Json::Parse(http.body);
  if (!body) {
    return ToResponse(Fail(Error{ErrorCode::kInvalid, body.error().message, 400, {}}));
  }
  request.body = std::move(*body);
  if (request.body["kind"].IsString() && http.method != "DELETE") {
    request.resource.kind = request.body["kind"].AsString();
  }
  if (http.method == "POST") {
    request.verb = api::Verb::kCreate;
    request.key.name = request.body["metadata"]["name"].AsString();
  } else if (http.method == "PUT") {
    request.verb = api::Verb::kUpdate;
  } else if (http.method == "DELETE") {
    request.verb = api::Verb::kDelete;
    request.body = Json(request.body["preconditions"]);
  } else if (http.content_type == "application/apply-patch+yaml") {
    request.verb = api::Verb::kApply;
  } else if (http.content_type == "application/json-patch+json") {
    request.verb = api::Verb::kJsonPatch;
  } else {
    request.verb = api::Verb::kMergePatch;
  }
  HttpResponse response = ToResponse(server_.Do(request));
  if (response.status == 200 && http.method == "POST") {
    response.status = 201;
  }
  return response;
}

// --- streams ------------------------------------------------------------------------------------

RequestId FakeTransport::OpenStream(HttpRequest request, StreamCallbacks callbacks) {
  const RequestId id = next_id_++;
  requests_.push_back(request.method + " " + request.target);
  auto stream = std::make_shared<Stream>();
  stream->id = id;
  stream->parsed = ParseTarget(request.target);
  stream->callbacks = std::move(callbacks);
  stream->idle = request.timeout;
  stream->last_activity = loop_.Now();
  streams_[id] = stream;
  std::optional<Result<HttpResponse>> answer;
  if (closed_) {
    answer = Fail(ErrorCode::kCancelled, "closed");
  } else if (intercept_) {
    answer = intercept_(request);
  }
  const bool initial = stream->parsed.Query("sendInitialEvents") == "true";
  if (!answer.has_value() && initial && !streaming_lists_) {
    answer = ToResponse(Fail(Error{ErrorCode::kInvalid, "sendInitialEvents: Forbidden", 422, {}}));
  }
  Later([this, stream, initial, answer = std::move(answer)]() mutable {
    if (streams_.count(stream->id) == 0) {
      return;
    }
    if (answer.has_value()) {
      End(stream, std::move(*answer));
      return;
    }
    std::string lines;
    const Parsed& parsed = stream->parsed;
    if (initial) {
      for (const Json& object :
           server_.List(parsed.resource, parsed.key.ns, parsed.Query("labelSelector"))) {
        if (MatchesFieldSelector(object, parsed.Query("fieldSelector"))) {
          lines += Json::Obj({{"type", "ADDED"}, {"object", object}}).Dump() + "\n";
        }
      }
      lines +=
          Json::Obj(
              {{"type", "BOOKMARK"},
               {"object",
                Json::Obj({{"metadata",
                            Json::Obj({{"resourceVersion", std::to_string(server_.Version())},
                                       {"annotations",
                                        Json::Obj({{"k8s.io/initial-events-end", "true"}})}})}})}})
              .Dump() +
          "\n";
    } else {
      const auto events = server_.EventsAfter(
          parsed.resource, std::strtoll(parsed.Query("resourceVersion").c_str(), nullptr, 10));
      if (!events) {
        Deliver(stream,
                Json::Obj({{"type", "ERROR"}, {"object", StatusOf(events.error())}}).Dump() + "\n");
        End(stream, HttpResponse{200, "", {}});
        return;
      }
      for (const FakeApiServer::Event& event : *events) {
        lines += Line(*stream, event);
      }
    }
    stream->live = true;
    Deliver(stream, std::move(lines));
    CheckIdle(stream);
    const int seconds = std::max(1, std::atoi(parsed.Query("timeoutSeconds").c_str()));
    loop_.PostAt(loop_.Now() + std::chrono::seconds(seconds),
                 [this, alive = std::weak_ptr<bool>(alive_), stream] {
                   if (!alive.expired() && !frozen_) {
                     End(stream, HttpResponse{200, "", {}});
                   }
                 });
  });
  return id;
}

void FakeTransport::CheckIdle(const std::shared_ptr<Stream>& stream) {
  loop_.PostAt(stream->last_activity + stream->idle,
               [this, alive = std::weak_ptr<bool>(alive_), stream] {
                 if (alive.expired() || streams_.count(stream->id) == 0) {
                   return;
                 }
                 if (stream->last_activity + stream->idle <= loop_.Now()) {
                   End(stream, Fail(ErrorCode::kTimeout, "no data"));
                 } else {
                   CheckIdle(stream);
                 }
               });
}

void FakeTransport::Deliver(const std::shared_ptr<Stream>& stream, std::string lines) {
  if (lines.empty() || frozen_ || streams_.count(stream->id) == 0) {
    return;
  }
  stream->last_activity = loop_.Now();
  stream->callbacks.on_lines(lines);
}

void FakeTransport::End(const std::shared_ptr<Stream>& stream, Result<HttpResponse> how) {
  if (streams_.erase(stream->id) != 0) {
    stream->callbacks.on_end(std::move(how));
  }
}

std::string FakeTransport::Line(const Stream& stream, const FakeApiServer::Event& event) {
  const Parsed& parsed = stream.parsed;
  if (event.resource.plural != parsed.resource.plural ||
      event.resource.group != parsed.resource.group ||
      (!parsed.key.ns.empty() && parsed.key.ns != event.key.ns)) {
    return "";
  }
  const auto matches = [&](const Json& object) {
    return MatchesLabelSelector(object, parsed.Query("labelSelector")) &&
           MatchesFieldSelector(object, parsed.Query("fieldSelector"));
  };
  // An object that begins or ends to match is added or deleted for this watch.
  std::string type = event.type;
  const bool now = matches(*event.object);
  const bool before = event.previous != nullptr && matches(*event.previous);
  if (type == "MODIFIED" && now != before) {
    type = now ? "ADDED" : "DELETED";
  } else if (type == "DELETED" ? !before : !now) {
    return "";
  }
  return Json::Obj({{"type", type}, {"object", *event.object}}).Dump() + "\n";
}

void FakeTransport::OnEvent(const FakeApiServer::Event& event) {
  for (const auto& [id, stream] : streams_) {
    if (!stream->live) {
      continue;
    }
    if (std::string line = Line(*stream, event); !line.empty()) {
      Later([this, stream = stream, line = std::move(line)] { Deliver(stream, line); });
    }
  }
}

void FakeTransport::BreakStreams() {
  const auto streams = streams_;
  for (const auto& [id, stream] : streams) {
    End(stream, Fail(ErrorCode::kUnavailable, "connection reset"));
  }
}

void FakeTransport::SendBookmarks() {
  SendLine(
      Json::Obj(
          {{"type", "BOOKMARK"},
           {"object", Json::Obj({{"metadata", Json::Obj({{"resourceVersion",
                                                          std::to_string(server_.Version())}})}})}})
          .Dump());
}

void FakeTransport::SendLine(const std::string& line) {
  for (const auto& [id, stream] : streams_) {
    Later([this, stream = stream, line] { Deliver(stream, line + "\n"); });
  }
}

void FakeTransport::Cancel(RequestId id) {
  if (const auto it = pending_.find(id); it != pending_.end()) {
    Later([done = std::move(it->second)] { done(Fail(ErrorCode::kCancelled, "cancelled")); });
    pending_.erase(it);
    return;
  }
  if (const auto it = streams_.find(id); it != streams_.end()) {
    Later([stream = it->second] {
      stream->callbacks.on_end(Fail(ErrorCode::kCancelled, "cancelled"));
    });
    streams_.erase(it);
  }
}

void FakeTransport::Close() {
  closed_ = true;
  while (!pending_.empty()) {
    Cancel(pending_.begin()->first);
  }
  while (!streams_.empty()) {
    Cancel(streams_.begin()->first);
  }
}

}  // namespace tutti::kube
