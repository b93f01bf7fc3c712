// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audit/text.h"
#include "measure/compare.h"
#include "measure/ledger.h"
#include "measure/recorder.h"
#include "measure/report.h"
#include "measure/windows.h"

namespace tutti::measure {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const Time kNoon = *ParseTime("2026-12-01T12:00:00Z");

Time At(int second) {
  return kNoon + seconds(second);
}

Json Node(const std::string& name, int gpus) {
  return *Json::Parse(R"({"metadata":{"name":")" + name + R"(","uid":"n-)" + name +
                      R"("},"spec":{},"status":{"allocatable":{"cpu":"16","nvidia.com/gpu":")" +
                      std::to_string(gpus) +
                      R"("},"conditions":[{"type":"Ready","status":"True"}]}})");
}

Json Job(const std::string& name, int pods, int created, const std::string& uid = "",
         const std::string& status = "{}") {
  return *Json::Parse(
      R"({"metadata":{"name":")" + name + R"(","namespace":"team","uid":")" +
      (uid.empty() ? "j-" + name : uid) + R"(","creationTimestamp":")" + FormatTime(At(created)) +
      R"("},"spec":{"parallelism":)" + std::to_string(pods) + R"(,"completions":)" +
      std::to_string(pods) +
      R"(,"template":{"spec":{"containers":[{"name":"c","env":[{"name":"SECRET","value":"x"}],)" +
      R"("resources":{"limits":{"nvidia.com/gpu":"8"}}}]}}},"status":)" + status + "}");
}

struct PodSpec {
  std::string name = {};
  std::string job = {};
  int created = 0;
  int bound = -1;  // -1: no node
  std::string uid = {};
  std::string job_uid = {};
  std::string node = "n1";
};

Json Pod(const PodSpec& pod) {
  std::string text = R"({"metadata":{"name":")" + pod.name + R"(","namespace":"team","uid":")" +
                     (pod.uid.empty() ? "p-" + pod.name : pod.uid) + R"(","creationTimestamp":")" +
                     FormatTime(At(pod.created)) + R"(")";
  if (!pod.job.empty()) {
    text +=
        R"(,"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","controller":true,"name":")" +
        pod.job + R"(","uid":")" + (pod.job_uid.empty() ? "j-" + pod.job : pod.job_uid) + R"("}])";
  }
  text += R"(},"spec":{"containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":"8"},)"
          R"("requests":{"nvidia.com/gpu":"8"}}}])";
  if (pod.bound >= 0) {
    text += R"(,"nodeName":")" + pod.node + R"("},"status":{"phase":"Running","conditions":)" +
            R"([{"type":"PodScheduled","status":"True","lastTransitionTime":")" +
            FormatTime(At(pod.bound)) + R"("}]}})";
  } else {
    text += R"(},"status":{"phase":"Pending"}})";
  }
  return *Json::Parse(text);
}

class MeasureTest : public testing::Test {
 protected:
  MeasureTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "measure-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    path_ = directory_ + "/ledger.db";
  }
  ~MeasureTest() override { std::filesystem::remove_all(directory_); }

  void Open(int second, const std::string& source = "cluster c") {
    auto ledger = Ledger::Open(path_);
    ASSERT_TRUE(ledger) << ledger.error().message;
    ledger_ = std::move(*ledger);
    recorder_ = std::make_unique<Recorder>();
    const Status begun = ledger_->Begin(source, At(second), false);
    ASSERT_TRUE(begun) << begun.error().message;
    fresh_ = true;
  }
  void Close() { ledger_.reset(); }

  void See(const std::string& kind, const Json& object, int second, bool deleted = false) {
    const std::string version = kind == "Job" ? "batch/v1" : "v1";
    recorder_->Take(std::make_shared<const Slim>(MakeSlim(object, kind, version)), deleted,
                    At(second));
  }
  void Round(int second) {
    const std::set<std::string> alive = recorder_->Alive();
    const Status recorded =
        ledger_->Record(recorder_->Collect(At(second)), fresh_ ? &alive : nullptr);
    ASSERT_TRUE(recorded) << recorded.error().message;
    fresh_ = false;
  }
  Windows Read(audit::HistoryOptions options = {}) {
    auto recorded = Ledger::Read(path_);
    EXPECT_TRUE(recorded) << recorded.error().message;
    return {std::move(*recorded), audit::Prices::Examples(), options};
  }

  std::string directory_;
  std::string path_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<Recorder> recorder_;
  bool fresh_ = true;
};

TEST_F(MeasureTest, APartialStartIsCountedToTheSecond) {
  Open(0);
  See("Node", Node("n1", 16), 0);
  See("Job", Job("a", 2, 0), 0);
  See("Pod", Pod({.name = "a-0", .job = "a", .created = 1, .bound = 60}), 0);
  See("Pod", Pod({.name = "a-1", .job = "a", .created = 1}), 0);
  Round(70);
  See("Pod", Pod({.name = "a-1", .job = "a", .created = 1, .bound = 180}), 181);
  Round(200);
  Round(660);
  const Windows windows = Read();
  const Window all = windows.Cut(At(0), At(660));
  EXPECT_EQ(all.watched, seconds(660));
  EXPECT_EQ(all.created, 1U);
  EXPECT_EQ(all.started, 1U);
  EXPECT_EQ(all.partial, 1U);
  EXPECT_EQ(all.partial_time, seconds(120));
  EXPECT_EQ(all.partially.device_seconds, 8 * 120);
  EXPECT_EQ(all.whole.device_seconds, 16 * 480);
  EXPECT_EQ(all.asked.device_seconds, 16 * 660);
  EXPECT_EQ(all.supply.device_seconds, 16 * (660 - 70));  // nodes are known from the first round on
  EXPECT_EQ(all.waits.jobs, 1U);
  EXPECT_EQ(all.waits.longest, seconds(180));
  EXPECT_EQ(all.sizes[3], 1U);                                      // 16 accelerators
  EXPECT_EQ(all.partially.cost.Cents(), 8 * 120 * 250 / 3600 + 1);  // 66.67 cents
  // In the window after it the job is whole.
  const Window later = windows.Cut(At(180), At(660));
  EXPECT_EQ(later.partial + later.started, 0U);
  EXPECT_EQ(later.Wasted(), 0);
  EXPECT_EQ(later.whole.device_seconds, 16 * 480);
}

TEST_F(MeasureTest, WhatComesAndGoesBetweenTwoRoundsIsCounted) {
  Open(0);
  See("Node", Node("n1", 16), 0);
  Round(0);
  See("Job", Job("a", 2, 5), 5);
  for (const std::string name : {"a-0", "a-1"}) {
    See("Pod", Pod({.name = name, .job = "a", .created = 6, .bound = 10}), 10);
  }
  for (const std::string name : {"a-0", "a-1"}) {
    See("Pod", Pod({.name = name, .job = "a", .created = 6, .bound = 10}), 40, /*deleted=*/true);
  }
  See("Job", Job("a", 2, 5), 45, /*deleted=*/true);
  Round(100);
  const Window all = Read().Cut(At(0), At(100));
  EXPECT_EQ(all.whole.device_seconds, 2 * 8 * 30);
  EXPECT_EQ(all.started, 1U);
  EXPECT_EQ(all.waiting, 0U);
  EXPECT_EQ(all.asked.device_seconds, 16 * 40);
}

TEST_F(MeasureTest, AJobThatIsMadeAgainUnderItsNameIsAnother) {
  Open(0);
  See("Node", Node("n1", 16), 0);
  See("Job", Job("a", 2, 0, "first"), 0);
  for (const std::string name : {"a-0", "a-1"}) {
    See("Pod", Pod({.name = name, .job = "a", .bound = 10, .job_uid = "first"}), 10);
  }
  Round(20);
  See("Job", Job("a", 2, 0, "first"), 30, /*deleted=*/true);
  See("Job", Job("a", 2, 31, "second"), 31);
  for (const std::string name : {"a-0", "a-1"}) {
    See("Pod", Pod({.name = name, .job = "a", .bound = 10, .job_uid = "first"}), 32, true);
    See("Pod",
        Pod({.name = name + "x", .job = "a", .created = 33, .bound = 40, .job_uid = "second"}), 40);
  }
  Round(60);
  const Window all = Read().Cut(At(0), At(60));
  EXPECT_EQ(all.created, 2U);
  EXPECT_EQ(all.started, 2U);
  EXPECT_EQ(all.partial + all.restarted_partially, 0U);
  EXPECT_EQ(all.whole.device_seconds + all.others.device_seconds, 16 * (20 + 20));
}

TEST_F(MeasureTest, WhatWasNotWatchedIsNotCountedAndSaid) {
  Open(0);
  See("Node", Node("n1", 16), 0);
  See("Job", Job("a", 2, 0), 0);
  See("Pod", Pod({.name = "a-0", .job = "a", .bound = 10}), 10);
  See("Pod", Pod({.name = "a-1", .job = "a", .bound = 10}), 10);
  See("Pod", Pod({.name = "alone", .bound = 0}), 10);
  Round(100);
  Close();
  Open(200);
  See("Node", Node("n1", 16), 200);
  See("Job", Job("a", 2, 0), 200);
  See("Pod", Pod({.name = "a-0", .job = "a", .bound = 10}), 200);
  See("Pod", Pod({.name = "a-1", .job = "a", .bound = 10}), 200);
  Round(200);
  Round(300);
  const Windows windows = Read();
  const Window all = windows.Cut(At(0), At(300));
  EXPECT_EQ(all.watched, seconds(200));
  EXPECT_EQ(all.whole.device_seconds, 16 * (90 + 100));
  EXPECT_EQ(all.others.device_seconds, 8 * 100);  // up to the last look
  EXPECT_EQ(windows.recorded().ends_unseen, 1U);
  EXPECT_THAT(windows.Notes(all), AllOf(Contains(HasSubstr("watched for 3 min 20 s of 5 min")),
                                        Contains(HasSubstr("1 pod ended when nobody watched"))));
  const Window gap = windows.Cut(At(110), At(190));
  EXPECT_EQ(gap.watched, Duration::zero());
  EXPECT_EQ(gap.Held(), 0);
  EXPECT_THAT(ToText(MakeReport("l", windows, At(110), At(190), {}), 80),
              HasSubstr("Nothing was watched"));
}

TEST_F(MeasureTest, AGangThatStartsAgainPartiallyAfterItLostAllIsAPartialStart) {
  Open(0);
  See("Node", Node("n1", 16), 0);
  See("Job", Job("a", 2, 0), 0);
  for (const std::string name : {"a-0", "a-1"}) {
    See("Pod", Pod({.name = name, .job = "a", .bound = 10}), 10);
    See("Pod", Pod({.name = name, .job = "a", .bound = 10}), 50, /*deleted=*/true);
  }
  See("Pod", Pod({.name = "a-2", .job = "a", .created = 55, .bound = 60}), 60);
  See("Pod", Pod({.name = "a-3", .job = "a", .created = 55, .bound = 100}), 100);
  Round(120);
  const Window all = Read().Cut(At(0), At(120));
  EXPECT_EQ(all.started, 1U);
  EXPECT_EQ(all.partial, 0U);
  EXPECT_EQ(all.restarted_partially, 1U);
  EXPECT_EQ(all.lost, 0U);
  EXPECT_EQ(all.partially.device_seconds, 8 * 40);
}

TEST_F(MeasureTest, AFileOfSomethingElseIsRefused) {
  Open(100);
  Close();
  auto again = Ledger::Open(path_);
  ASSERT_TRUE(again);
  const Status other = (*again)->Begin("cluster d", At(200), false);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("is about cluster c, not about cluster d"));
  again->reset();
  Open(100);
  Round(200);
  const Status early = ledger_->Begin("cluster c", At(50), false);
  ASSERT_FALSE(early);
  EXPECT_THAT(early.error().message, HasSubstr("is before that"));
  const std::string text = directory_ + "/text";
  std::ofstream(text) << "some words that are no database, and more of them\n";
  EXPECT_FALSE(Ledger::Open(text));
  const auto none = Ledger::Read(directory_ + "/none.db");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("there is no such file"));
}

TEST_F(MeasureTest, SecretsAreNotKept) {
  const Slim slim = MakeSlim(Job("a", 2, 0), "Job", "batch/v1");
  EXPECT_THAT(slim.text, AllOf(Not(HasSubstr("SECRET")), HasSubstr("nvidia.com/gpu")));
}

// A ledger's content made by hand.
class MadeUp {
 public:
  explicit MadeUp(int until) {
    recorded_.source = "cluster c";
    recorded_.facts.now = At(until);
    recorded_.facts.nodes.resize(2);
    recorded_.facts.nodes[1].name = "n1";
    recorded_.watched.push_back({At(0), At(until), false});
    recorded_.supply.push_back({"nvidia.com/gpu", 64, {}, At(0), At(until)});
  }
  struct Times {
    int bound;
    int ended;  // -1: it runs
    bool succeeded = false;
  };
  void Job(int created, int size, const std::vector<Times>& pods) {
    audit::Gang gang;
    gang.kind = "Job";
    gang.ns = "team";
    gang.name = "j" + std::to_string(recorded_.facts.gangs.size());
    gang.uid = gang.name;
    gang.size = size;
    gang.created = At(created);
    gang.known = true;
    gang.devices["nvidia.com/gpu"] = 4 * size;
    for (const Times& times : pods) {
      audit::PodTimes pod;
      pod.name = gang.name + "-" + std::to_string(gang.pods.size());
      pod.node = 1;
      pod.created = At(created);
      pod.bound = At(times.bound);
      if (times.ended >= 0) {
        pod.ended = At(times.ended);
      }
      pod.succeeded = times.succeeded;
      pod.devices["nvidia.com/gpu"] = 4;
      pod.shape = std::make_shared<const api::PodShape>();
      gang.pods.push_back(std::move(pod));
    }
    recorded_.facts.gangs.push_back(std::move(gang));
  }
  Windows Make(audit::HistoryOptions options = {}) {
    return {std::move(recorded_), audit::Prices::Examples(), options};
  }
  Recorded recorded_;
};

// Windows against a count second by second that knows nothing of spells.
TEST(WindowsTest, AgreeWithACountSecondBySecond) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int limit) {
      return static_cast<int>(random() % static_cast<unsigned>(limit));
    };
    constexpr int kUntil = 400;
    MadeUp made(kUntil);
    made.recorded_.watched = {{At(0), At(150), false}, {At(180 + below(40)), At(kUntil), false}};
    const std::vector<Span> watched = made.recorded_.watched;
    for (int job = 0; job < 4; ++job) {
      const int size = 2 + below(3);
      std::vector<MadeUp::Times> pods;
      for (int pod = 0; pod < size + below(3); ++pod) {
        const int bound = below(kUntil);
        const int ended = below(2) == 0 ? -1 : bound + below(kUntil - bound + 1);
        pods.push_back({bound, ended, ended >= 0 && below(2) == 0});
      }
      made.Job(below(20), size, pods);
    }
    const std::vector<audit::Gang> gangs = made.recorded_.facts.gangs;
    const Windows windows = made.Make({.tolerance = Duration::zero()});
    const int from = below(200);
    const int to = from + 1 + below(kUntil - from);
    const Window window = windows.Cut(At(from), At(to));
    int64_t whole = 0;
    int64_t partially = 0;
    int64_t lost = 0;
    int64_t others = 0;
    for (size_t g = 0; g < gangs.size(); ++g) {
      const audit::Gang& gang = gangs[g];
      const bool judged = windows.recorded().facts.gangs[g].unjudged.empty();
      bool was_whole = false;
      for (int second = 0; second < kUntil; ++second) {
        int held = 0;
        int done = 0;
        for (const audit::PodTimes& pod : gang.pods) {
          const bool begun = pod.bound <= At(second);
          const bool over = pod.ended && *pod.ended <= At(second);
          held += begun && !over;
          done += begun && over && pod.succeeded;
        }
        const bool is_whole = held + done >= gang.size;
        was_whole = (was_whole || is_whole) && held > 0;
        const bool counts = second >= from && second < to &&
                            std::any_of(watched.begin(), watched.end(), [&](const Span& span) {
                              return At(second) >= span.begin && At(second) < span.end;
                            });
        if (counts) {
          (!judged ? others : is_whole ? whole : was_whole ? lost : partially) += 4 * held;
        }
      }
    }
    EXPECT_EQ(window.whole.device_seconds, whole) << "seed " << seed;
    EXPECT_EQ(window.partially.device_seconds, partially) << "seed " << seed;
    EXPECT_EQ(window.lost_members.device_seconds, lost) << "seed " << seed;
    EXPECT_EQ(window.others.device_seconds, others) << "seed " << seed;
    // Two halves are the whole.
    const int middle = from + (to - from) / 2;
    const Window first = windows.Cut(At(from), At(middle));
    const Window second = windows.Cut(At(middle), At(to));
    EXPECT_EQ(first.Held() + second.Held(), window.Held()) << "seed " << seed;
    EXPECT_EQ(first.asked.device_seconds + second.asked.device_seconds,
              window.asked.device_seconds);
    EXPECT_EQ(first.partial + second.partial, window.partial);
    if (HasFailure()) {
      return;
    }
  }
}

MadeUp Load(int jobs, int size, bool partially) {
  MadeUp made(8 * 3600);
  for (int i = 0; i < jobs; ++i) {
    const int begin = i * 600;
    std::vector<MadeUp::Times> pods;
    for (int pod = 0; pod < size; ++pod) {
      pods.push_back({begin + 10 + (partially && pod > 0 ? 300 : 0), begin + 3600, true});
    }
    made.Job(begin, size, pods);
    made.recorded_.facts.gangs.back().finished = true;
    made.recorded_.facts.gangs.back().succeeded = size;
    made.recorded_.facts.gangs.back().ended = At(begin + 3600);
  }
  return made;
}

Comparison Of(MadeUp a, MadeUp b) {
  const Windows one = a.Make();
  const Windows two = b.Make();
  return Compare(one, one.Cut(one.Begin(), one.End()), "a.db", two, two.Cut(two.Begin(), two.End()),
                 "b.db");
}

TEST(CompareTest, TheSameLoadWithoutPartialStarts) {
  const Comparison same = Of(Load(30, 4, true), Load(30, 4, false));
  EXPECT_EQ(same.comparable, Comparable::kYes) << testing::PrintToString(same.reasons);
  const std::string text = ToText(same, 80);
  EXPECT_THAT(text, AllOf(HasSubstr("The load is alike"), HasSubstr("100 %"), HasSubstr("-100 %")));
  EXPECT_EQ(ToJson(same)["comparable"].AsString(), "yes");
}

TEST(CompareTest, HalfTheLoadIsComparedWithCare) {
  const Comparison half = Of(Load(30, 4, true), Load(15, 4, false));
  EXPECT_EQ(half.comparable, Comparable::kWithCare);
  EXPECT_THAT(half.reasons, Contains(HasSubstr("50 % less accelerators")));
}

TEST(CompareTest, AnotherMixOfSizesIsSaid) {
  const Comparison mixed = Of(Load(30, 4, true), Load(30, 5, false));
  EXPECT_EQ(mixed.comparable, Comparable::kWithCare);
  EXPECT_THAT(mixed.reasons, Contains(HasSubstr("the mix of sizes differs: 100 %")));
}

TEST(CompareTest, FewJobsTellNothing) {
  const Comparison few = Of(Load(30, 4, true), Load(3, 4, false));
  EXPECT_EQ(few.comparable, Comparable::kNo);
  EXPECT_THAT(few.reasons, Contains(HasSubstr("in B 3 jobs of several pods started")));
  EXPECT_THAT(ToText(few, 80), HasSubstr("NOT TO BE COMPARED"));
}

TEST(ReportTest, KeepsToTheWidth) {
  MadeUp made = Load(30, 4, true);
  made.recorded_.evictions.push_back({0, At(100), "Preempted"});
  const Windows windows = made.Make();
  const Report report =
      MakeReport("ledger.db", windows, windows.Begin(), windows.End(), std::chrono::hours(1));
  EXPECT_EQ(report.parts.size(), 8U);
  for (const size_t width : {80U, 120U}) {
    std::istringstream lines(ToText(report, width));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(audit::Columns(line), width) << line;
    }
    std::istringstream compared(ToText(Of(Load(30, 4, true), Load(15, 4, false)), width));
    for (std::string line; std::getline(compared, line);) {
      EXPECT_LE(audit::Columns(line), width) << line;
    }
  }
  EXPECT_EQ(ToJson(report)["all"]["startedPartially"].AsInt(), 30);
  EXPECT_EQ(ToJson(report)["all"]["evictions"]["Preempted"].AsInt(), 1);
}

}  // namespace
}  // namespace tutti::measure
