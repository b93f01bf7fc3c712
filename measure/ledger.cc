// SPDX-License-Identifier: Apache-2.0
#include "measure/ledger.h"

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

#include "audit/prices.h"
#include "base/json.h"
#include "storage/sqlite.h"

namespace tutti::measure {
namespace {

using storage::Database;
using storage::Statement;
using storage::Transaction;

constexpr int64_t kApplication = 0x74757474;  // marks the file as a ledger of `tutti measure`
constexpr int64_t kVersion = 1;

// Times are microseconds since 1970, 0 = none.
constexpr const char* kSchema = R"sql(
CREATE TABLE source (id INTEGER PRIMARY KEY, text TEXT NOT NULL, dumps INTEGER NOT NULL) STRICT;
CREATE TABLE watched (
  id INTEGER PRIMARY KEY,
  begin INTEGER NOT NULL,
  end INTEGER NOT NULL,
  sampled INTEGER NOT NULL
) STRICT;
CREATE TABLE node (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  labels TEXT NOT NULL                          -- JSON, the last that were seen
) STRICT;
CREATE TABLE job (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  uid TEXT NOT NULL,
  sure INTEGER NOT NULL,                        -- audit::GangKind
  size INTEGER NOT NULL,
  queue TEXT NOT NULL,
  created INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  finished INTEGER NOT NULL,
  suspended INTEGER NOT NULL,
  active INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  unjudged TEXT NOT NULL,
  devices TEXT NOT NULL,                        -- JSON: resource to number, of the whole job
  UNIQUE (kind, namespace, name, uid)
) STRICT;
CREATE TABLE pod (
  id INTEGER PRIMARY KEY,
  uid TEXT NOT NULL UNIQUE,
  job INTEGER NOT NULL,                         -- 0 = of no job of several pods
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  node INTEGER NOT NULL,                        -- 0 = none yet
  created INTEGER NOT NULL,
  bound INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  unseen INTEGER NOT NULL,                      -- it ended when nobody watched, at `ended` or later
  taken_for TEXT NOT NULL,
  devices TEXT NOT NULL                         -- JSON: resource to number
) STRICT;
CREATE INDEX pod_by_end ON pod (ended);
CREATE TABLE eviction (
  job INTEGER NOT NULL,
  at INTEGER NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (job, at)
) STRICT, WITHOUT ROWID;
CREATE TABLE supply (
  id INTEGER PRIMARY KEY,
  node TEXT NOT NULL,
  resource TEXT NOT NULL,
  amount INTEGER NOT NULL,
  labels TEXT NOT NULL,                         -- JSON
  begin INTEGER NOT NULL,
  end INTEGER NOT NULL                          -- 0 = it still is so
) STRICT;
)sql";

int64_t Micros(Time time) {
  return time.time_since_epoch().count();
}

Time TimeOf(int64_t micros) {
  return Time(Duration(micros));
}

std::string ToText(const api::Amounts& amounts) {
  Json out = Json::Obj();
  for (const auto& [resource, amount] : amounts) {
    out.Set(resource, amount);
  }
  return out.Dump();
}

api::Amounts AmountsOf(const std::string& text) {
  api::Amounts out;
  if (const Result<Json> json = Json::Parse(text)) {
    for (const auto& [resource, amount] : json->AsObject()) {
      out[resource] = amount.AsInt();
    }
  }
  return out;
}

api::StringMap LabelsOf(const std::string& text) {
  const Result<Json> json = Json::Parse(text);
  return json ? api::StringMapFromJson(*json) : api::StringMap();
}

Result<int64_t> Number(Database& database, const char* sql) {
  TRY_ASSIGN(Statement * statement, database.Prepare(sql));
  TRY_ASSIGN(const bool row, statement->Step());
  const int64_t number = row ? statement->Int(0) : 0;
  statement->Reset();
  return number;
}

// Of a file that exists.
Status CheckFormat(Database& database, const std::string& path) {
  TRY_ASSIGN(const int64_t application, Number(database, "PRAGMA application_id"));
  if (application != kApplication) {
    return Fail(ErrorCode::kInvalid, path + ": is no ledger of `tutti measure`");
  }
  TRY_ASSIGN(const int64_t version, database.UserVersion());
  if (version != kVersion) {
    return Fail(ErrorCode::kInvalid, path + ": was written by another version of tutti (format " +
                                         std::to_string(version) + ", this program has " +
                                         std::to_string(kVersion) + ")");
  }
  return {};
}

// One row after the other.
template <typename Take>
Status Rows(Database& database, const char* sql, Take take) {
  TRY_ASSIGN(Statement * select, database.Prepare(sql));
  while (true) {
    TRY_ASSIGN(const bool more, select->Step());
    if (!more) {
      break;
    }
    take(*select);
  }
  select->Reset();
  return {};
}

bool UsableNow(const audit::NodeFacts& node) {
  return node.known && node.ready && !node.unschedulable;
}

}  // namespace

std::string PodId(const std::string& ns, const audit::PodTimes& pod) {
  return !pod.uid.empty() ? pod.uid : ns + "/" + pod.name + "@" + FormatTime(pod.created);
}

struct Ledger::Impl {
  explicit Impl(Database db) : database(std::move(db)) {}

  using JobKey = std::tuple<std::string, std::string, std::string, std::string>;
  static JobKey KeyOf(const audit::Gang& gang) { return {gang.kind, gang.ns, gang.name, gang.uid}; }

  Status Load() {
    TRY_ASSIGN(end, Number(database, "SELECT max(end) FROM watched"));
    return Rows(database, "SELECT id,name FROM node", [this](const Statement& row) {
      nodes[row.Text(1)] = {row.Int(0), ""};
    });
  }

  Status WriteNodes(const audit::Facts& facts) {
    std::map<std::pair<std::string, std::string>, std::pair<int64_t, std::string>> now;
    for (size_t i = 1; i < facts.nodes.size(); ++i) {
      const audit::NodeFacts& node = facts.nodes[i];
      const std::string labels = api::ToJson(node.labels).Dump();
      auto& [id, known] = nodes[node.name];
      if (id == 0 || (node.known && known != labels)) {
        TRY_ASSIGN(Statement * upsert,
                   database.Prepare("INSERT INTO node(name,labels) VALUES(?1,?2) ON CONFLICT(name) "
                                    "DO UPDATE SET labels=excluded.labels"));
        upsert->Bind(1, node.name).Bind(2, labels);
        TRY(upsert->Run());
        if (id == 0) {
          id = database.LastInsertId();
        }
        known = labels;
      }
      for (const auto& [resource, amount] : node.allocatable) {
        if (UsableNow(node) && amount > 0 && audit::IsAccelerator(resource)) {
          now[{node.name, resource}] = {amount, labels};
        }
      }
    }
    for (auto it = supply.begin(); it != supply.end();) {
      const auto same = now.find(it->first);
      if (same != now.end() && same->second == it->second.second) {
        now.erase(same);
        ++it;
        continue;
      }
      TRY_ASSIGN(Statement * close, database.Prepare("UPDATE supply SET end=?2 WHERE id=?1"));
      close->Bind(1, it->second.first).Bind(2, Micros(facts.now));
      TRY(close->Run());
      it = supply.erase(it);
    }
    for (const auto& [key, what] : now) {
      TRY_ASSIGN(Statement * insert,
                 database.Prepare("INSERT INTO supply(node,resource,amount,labels,begin,end) "
                                  "VALUES(?1,?2,?3,?4,?5,0)"));
      insert->Bind(1, key.first)
          .Bind(2, key.second)
          .Bind(3, what.first)
          .Bind(4, what.second)
          .Bind(5, Micros(facts.now));
      TRY(insert->Run());
      supply[key] = {database.LastInsertId(), what};
    }
    return {};
  }

  Result<int64_t> WriteJob(const audit::Gang& gang) {
    auto& [known_id, known_text] = jobs[KeyOf(gang)];
    const std::string text =
        Json::Arr({static_cast<int64_t>(gang.sure), int64_t{gang.size}, gang.queue,
                   Micros(gang.created), Micros(gang.ended.value_or(kNoTime)), gang.finished,
                   gang.suspended, int64_t{gang.active}, int64_t{gang.succeeded}, gang.unjudged,
                   ToText(gang.devices), Micros(gang.evicted.value_or(kNoTime))})
            .Dump();
    if (known_id != 0 && known_text == text) {
      return known_id;  // most jobs don't change from one round to the next
    }
    const auto bind = [&](Statement& to) {
      to.Bind(1, gang.kind)
          .Bind(2, gang.ns)
          .Bind(3, gang.name)
          .Bind(4, gang.uid)
          .Bind(5, static_cast<int64_t>(gang.sure))
          .Bind(6, int64_t{gang.size})
          .Bind(7, gang.queue)
          .Bind(8, Micros(gang.created))
          .Bind(9, Micros(gang.ended.value_or(kNoTime)))
          .Bind(10, int64_t{gang.finished})
          .Bind(11, int64_t{gang.suspended})
          .Bind(12, int64_t{gang.active})
          .Bind(13, int64_t{gang.succeeded})
          .Bind(14, gang.unjudged)
          .Bind(15, ToText(gang.devices));
    };
    TRY_ASSIGN(
        Statement * upsert,
        database.Prepare(
            "INSERT INTO job(kind,namespace,name,uid,sure,size,queue,created,ended,finished,"
            "suspended,active,succeeded,unjudged,devices) "
            "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15) "
            "ON CONFLICT(kind,namespace,name,uid) DO UPDATE SET sure=excluded.sure,"
            "size=excluded.size,queue=CASE WHEN excluded.queue='' THEN queue ELSE excluded.queue "
            "END,created=min(created,excluded.created),ended=excluded.ended,"
            "finished=excluded.finished,suspended=excluded.suspended,active=excluded.active,"
            "succeeded=excluded.succeeded,unjudged=excluded.unjudged,"
            "devices=CASE WHEN excluded.devices='{}' THEN devices ELSE excluded.devices END"));
    bind(*upsert);
    TRY(upsert->Run());
    TRY_ASSIGN(Statement * select, database.Prepare("SELECT id FROM job WHERE kind=?1 AND "
                                                    "namespace=?2 AND name=?3 AND uid=?4"));
    select->Bind(1, gang.kind).Bind(2, gang.ns).Bind(3, gang.name).Bind(4, gang.uid);
    TRY_ASSIGN(const bool row, select->Step());
    const int64_t id = row ? select->Int(0) : 0;
    select->Reset();
    if (gang.evicted) {
      TRY_ASSIGN(Statement * insert,
                 database.Prepare("INSERT INTO eviction(job,at,reason) VALUES(?1,?2,?3) ON "
                                  "CONFLICT DO NOTHING"));
      insert->Bind(1, id).Bind(2, Micros(*gang.evicted)).Bind(3, gang.evicted_for);
      TRY(insert->Run());
    }
    known_id = id;
    known_text = text;
    return id;
  }

  Status WritePod(const audit::Facts& facts, int64_t job, const std::string& ns,
                  const audit::PodTimes& pod) {
    TRY_ASSIGN(
        Statement * upsert,
        database.Prepare("INSERT INTO pod(uid,job,namespace,name,node,created,bound,ended,"
                         "succeeded,unseen,taken_for,devices) "
                         "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,0,?10,?11) ON CONFLICT(uid) DO UPDATE "
                         "SET job=excluded.job,node=excluded.node,bound=excluded.bound,"
                         "ended=excluded.ended,succeeded=excluded.succeeded,unseen=0,"
                         "taken_for=CASE WHEN excluded.taken_for='' THEN taken_for ELSE "
                         "excluded.taken_for END,devices=excluded.devices"));
    const int64_t node = pod.node == 0 ? 0 : nodes[facts.nodes[pod.node].name].first;
    upsert->Bind(1, PodId(ns, pod))
        .Bind(2, job)
        .Bind(3, ns)
        .Bind(4, pod.name)
        .Bind(5, node)
        .Bind(6, Micros(pod.created))
        .Bind(7, Micros(pod.bound))
        .Bind(8, Micros(pod.ended.value_or(kNoTime)))
        .Bind(9, int64_t{pod.succeeded})
        .Bind(10, pod.taken_for)
        .Bind(11, ToText(pod.devices));
    return upsert->Run();
  }

  // What went while nobody watched was there up to `seen`.
  Status CloseUnseen(const std::set<std::string>& alive, const std::set<JobKey>& there,
                     int64_t seen) {
    std::vector<int64_t> pods;
    TRY(Rows(database, "SELECT id,uid FROM pod WHERE ended=0", [&](const Statement& row) {
      if (!alive.contains(row.Text(1))) {
        pods.push_back(row.Int(0));
      }
    }));
    for (const int64_t pod : pods) {
      TRY_ASSIGN(Statement * close,
                 database.Prepare("UPDATE pod SET ended=max(?2,bound),unseen=1 WHERE id=?1"));
      close->Bind(1, pod).Bind(2, seen);
      TRY(close->Run());
    }
    std::vector<int64_t> gone;
    TRY(Rows(database, "SELECT id,kind,namespace,name,uid FROM job WHERE finished=0",
             [&](const Statement& row) {
               if (!there.contains({row.Text(1), row.Text(2), row.Text(3), row.Text(4)})) {
                 gone.push_back(row.Int(0));
               }
             }));
    for (const int64_t job : gone) {
      TRY_ASSIGN(Statement * close,
                 database.Prepare("UPDATE job SET finished=1,active=0,"
                                  "ended=CASE WHEN ended=0 THEN ?2 ELSE ended END WHERE id=?1"));
      close->Bind(1, job).Bind(2, seen);
      TRY(close->Run());
    }
    return {};
  }

  Database database;
  int64_t end = 0;
  int64_t span = 0;  // id
  bool sampled = false;
  std::map<std::string, std::pair<int64_t, std::string>> nodes;  // by name: id, labels
  std::map<JobKey, std::pair<int64_t, std::string>> jobs;        // id, as written last
  // By node and resource what it has at present: id of its row, amount and labels.
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, std::pair<int64_t, std::string>>>
      supply;
};

Ledger::Ledger(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Ledger::~Ledger() = default;

Time Ledger::End() const {
  return TimeOf(impl_->end);
}

Result<std::unique_ptr<Ledger>> Ledger::Open(const std::string& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  const bool fresh = static_cast<bool>(error) || size == 0;
  TRY_ASSIGN(Database database, Database::Open(path, Database::Access::kReadWrite));
  if (fresh) {
    TRY_ASSIGN(Transaction transaction, Transaction::Begin(&database));
    TRY(database.Execute(kSchema));
    TRY(database.Execute(("PRAGMA application_id=" + std::to_string(kApplication) +
                          "; PRAGMA user_version=" + std::to_string(kVersion))
                             .c_str()));
    TRY(transaction.Commit());
  } else {
    TRY(CheckFormat(database, path));
  }
  auto impl = std::make_unique<Impl>(std::move(database));
  TRY(impl->Load());
  return std::unique_ptr<Ledger>(new Ledger(std::move(impl)));
}

Status Ledger::Begin(const std::string& source, Time at, bool sampled) {
  Impl& me = *impl_;
  TRY_ASSIGN(Transaction transaction, Transaction::Begin(&me.database));
  std::string known;
  TRY(Rows(me.database, "SELECT text FROM source WHERE id=1",
           [&known](const Statement& row) { known = row.Text(0); }));
  if (known.empty()) {
    TRY_ASSIGN(Statement * insert,
               me.database.Prepare("INSERT INTO source(id,text,dumps) VALUES(1,?1,0)"));
    insert->Bind(1, source);
    TRY(insert->Run());
  } else if (known != source) {
    return Fail(ErrorCode::kInvalid, "the ledger is about " + known + ", not about " + source +
                                         ": use another file (--ledger)");
  }
  if (Micros(at) < me.end) {
    return Fail(ErrorCode::kInvalid, "the ledger goes up to " + FormatTime(TimeOf(me.end)) +
                                         " already, and " + FormatTime(at) + " is before that");
  }
  // Dumps that follow each other are one span: each tells of the time before it, too.
  int64_t last = 0;
  TRY(Rows(me.database,
           "SELECT id FROM watched WHERE sampled=1 AND end=(SELECT max(end) FROM "
           "watched)",
           [&last](const Statement& row) { last = row.Int(0); }));
  if (sampled && last != 0) {
    me.span = last;
  } else {
    TRY_ASSIGN(Statement * insert,
               me.database.Prepare("INSERT INTO watched(begin,end,sampled) VALUES(?1,?1,?2)"));
    insert->Bind(1, Micros(at)).Bind(2, int64_t{sampled});
    TRY(insert->Run());
    me.span = me.database.LastInsertId();
  }
  if (sampled) {
    TRY(me.database.Execute("UPDATE source SET dumps=dumps+1"));
  }
  // What the nodes have is asked anew; between two dumps they are taken to have kept it.
  me.supply.clear();
  TRY_ASSIGN(Statement * close, me.database.Prepare("UPDATE supply SET end=?1 WHERE end=0"));
  close->Bind(1, sampled && last != 0 ? Micros(at) : me.end);
  TRY(close->Run());
  me.sampled = sampled;
  return transaction.Commit();
}

Status Ledger::Extend(Time now) {
  TRY_ASSIGN(Statement * update,
             impl_->database.Prepare("UPDATE watched SET end=max(end,?2) WHERE id=?1"));
  update->Bind(1, impl_->span).Bind(2, Micros(now));
  TRY(update->Run());
  impl_->end = std::max(impl_->end, Micros(now));
  return {};
}

Status Ledger::Record(const audit::Facts& facts, const std::set<std::string>* alive) {
  Impl& me = *impl_;
  TRY_ASSIGN(Transaction transaction, Transaction::Begin(&me.database));
  TRY(me.WriteNodes(facts));
  std::set<Impl::JobKey> jobs;
  for (const audit::Gang& gang : facts.gangs) {
    jobs.insert(Impl::KeyOf(gang));
    TRY_ASSIGN(const int64_t job, me.WriteJob(gang));
    for (const audit::PodTimes& pod : gang.pods) {
      TRY(me.WritePod(facts, job, gang.ns, pod));
    }
  }
  for (const audit::OtherPod& pod : facts.others) {
    TRY(me.WritePod(facts, 0, pod.ns, pod.times));
  }
  if (alive != nullptr && me.end != 0) {
    TRY(me.CloseUnseen(*alive, jobs, me.end));
  }
  const int64_t end = me.end;
  TRY(Extend(facts.now));
  if (Status committed = transaction.Commit(); !committed) {
    me.end = end;
    return committed;
  }
  return {};
}

Result<Recorded> Ledger::Read(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Fail(ErrorCode::kInvalid,
                path + ": there is no such file; `tutti measure --ledger " + path + "` makes it");
  }
  TRY_ASSIGN(Database database, Database::Open(path, Database::Access::kReadOnly));
  TRY(CheckFormat(database, path));
  Recorded out;
  audit::Facts& facts = out.facts;
  TRY(Rows(database, "SELECT text,dumps FROM source", [&](const Statement& row) {
    out.source = row.Text(0);
    out.dumps = static_cast<size_t>(row.Int(1));
  }));
  TRY(Rows(database, "SELECT begin,end,sampled FROM watched ORDER BY begin",
           [&](const Statement& row) {
             out.watched.push_back({TimeOf(row.Int(0)), TimeOf(row.Int(1)), row.Int(2) != 0});
             facts.now = std::max(facts.now, out.watched.back().end);
           }));
  facts.nodes.emplace_back();
  std::map<int64_t, uint32_t> node_index = {{0, 0}};
  TRY(Rows(database, "SELECT id,name,labels FROM node ORDER BY name", [&](const Statement& row) {
    node_index[row.Int(0)] = static_cast<uint32_t>(facts.nodes.size());
    audit::NodeFacts node;
    node.name = row.Text(1);
    node.labels = LabelsOf(row.Text(2));
    node.known = true;
    facts.nodes.push_back(std::move(node));
  }));
  std::map<int64_t, size_t> job_index;
  TRY(Rows(database,
           "SELECT id,kind,namespace,name,uid,sure,size,queue,created,ended,finished,suspended,"
           "active,succeeded,unjudged,devices FROM job ORDER BY namespace,name,kind,created",
           [&](const Statement& row) {
             audit::Gang gang;
             gang.kind = row.Text(1);
             gang.ns = row.Text(2);
             gang.name = row.Text(3);
             gang.uid = row.Text(4);
             gang.sure = static_cast<audit::GangKind>(row.Int(5));
             gang.size = static_cast<int32_t>(row.Int(6));
             gang.queue = row.Text(7);
             gang.created = TimeOf(row.Int(8));
             if (row.Int(9) != 0) {
               gang.ended = TimeOf(row.Int(9));
             }
             gang.finished = row.Int(10) != 0;
             gang.suspended = row.Int(11) != 0;
             gang.active = static_cast<int32_t>(row.Int(12));
             gang.succeeded = static_cast<int32_t>(row.Int(13));
             gang.unjudged = row.Text(14);
             gang.devices = AmountsOf(row.Text(15));
             gang.known = true;
             job_index[row.Int(0)] = facts.gangs.size();
             facts.gangs.push_back(std::move(gang));
           }));
  const auto no_shape = std::make_shared<const api::PodShape>();
  TRY(Rows(database,
           "SELECT uid,job,namespace,name,node,created,bound,ended,succeeded,unseen,taken_for,"
           "devices FROM pod ORDER BY created,name",
           [&](const Statement& row) {
             audit::PodTimes pod;
             pod.uid = row.Text(0);
             pod.name = row.Text(3);
             pod.node = node_index[row.Int(4)];
             pod.created = TimeOf(row.Int(5));
             pod.bound = TimeOf(row.Int(6));
             if (row.Int(7) != 0) {
               pod.ended = TimeOf(row.Int(7));
             }
             pod.succeeded = row.Int(8) != 0;
             out.ends_unseen += row.Int(9) != 0 ? 1 : 0;
             pod.taken_for = row.Text(10);
             pod.devices = AmountsOf(row.Text(11));
             pod.shape = no_shape;
             if (const auto job = job_index.find(row.Int(1)); job != job_index.end()) {
               facts.gangs[job->second].pods.push_back(std::move(pod));
             } else {
               facts.others.push_back({row.Text(2), std::move(pod)});
             }
           }));
  TRY(Rows(database, "SELECT resource,amount,labels,begin,end FROM supply ORDER BY begin",
           [&](const Statement& row) {
             out.supply.push_back({row.Text(0), row.Int(1), LabelsOf(row.Text(2)),
                                   TimeOf(row.Int(3)),
                                   row.Int(4) == 0 ? facts.now : TimeOf(row.Int(4))});
           }));
  TRY(Rows(database, "SELECT job,at,reason FROM eviction ORDER BY at", [&](const Statement& row) {
    if (const auto job = job_index.find(row.Int(0)); job != job_index.end()) {
      out.evictions.push_back({job->second, TimeOf(row.Int(1)), row.Text(2)});
    }
  }));
  return out;
}

}  // namespace tutti::measure
