// SPDX-License-Identifier: Apache-2.0
#include "operator/observe_command.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "audit/text.h"
#include "base/json.h"
#include "base/time.h"
#include "operator/terminal.h"
#include "storage/ledger.h"

namespace tutti {
namespace {

constexpr int kExitBadInput = 2;
constexpr size_t kShown = 20;
constexpr size_t kLeast = 60;

// What the live controller did, and what Tutti would have done.
std::pair<std::string, std::string> Sides(const storage::LedgerRow& row) {
  const size_t end = std::min(row.message.find('\n'), row.message.size());
  return {row.message.substr(0, end), row.message.substr(std::min(end + 1, row.message.size()))};
}

std::string InWords(const std::string& kind) {
  if (kind == "Reserved") {
    return "was given quota";
  }
  if (kind == "Preempted") {
    return "had to give way";
  }
  return "was left waiting";
}

// "99.2 %": rounded down, so that 100 % means all.
std::string Score(int64_t agreed, int64_t all) {
  const int64_t tenths = all > 0 ? agreed * 1000 / all : 0;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

bool Agreed(const storage::LedgerRow& row) {
  return row.event == storage::LedgerEvent::kForeseen;
}

Json AsJson(const std::vector<storage::LedgerRow>& rows) {
  int64_t agreed = 0;
  Json differences = Json::Arr();
  for (const storage::LedgerRow& row : rows) {
    agreed += Agreed(row) ? 1 : 0;
    if (!Agreed(row)) {
      const auto [live, ours] = Sides(row);
      differences.Push(Json::Obj({{"time", FormatTime(row.time)},
                                  {"kind", row.reason},
                                  {"namespace", row.workload.ns},
                                  {"workload", row.workload.name},
                                  {"clusterQueue", row.cluster_queue},
                                  {"live", live},
                                  {"tutti", ours}}));
    }
  }
  return Json::Obj({{"decisions", static_cast<int64_t>(rows.size())},
                    {"foreseen", agreed},
                    {"differences", std::move(differences)}});
}

std::string AsText(const std::vector<storage::LedgerRow>& rows, size_t width) {
  width = std::max(width, kLeast);
  std::string out;
  const auto paragraph = [&](const std::string& first, const std::string& text) {
    bool begin = true;
    for (const std::string& line : audit::Wrap(text, width - first.size())) {
      out += (std::exchange(begin, false) ? first : std::string(first.size(), ' ')) + line + "\n";
    }
  };
  if (rows.empty()) {
    paragraph("",
              "No decision of another controller has been observed yet. Is mode Observe on, "
              "and does the live controller admit anything?");
    return out;
  }
  const auto agreed = static_cast<int64_t>(std::count_if(rows.begin(), rows.end(), Agreed));
  const auto all = static_cast<int64_t>(rows.size());
  std::map<std::string, std::pair<int64_t, int64_t>> kinds;  // foreseen, all
  for (const storage::LedgerRow& row : rows) {
    kinds[row.reason].first += Agreed(row) ? 1 : 0;
    ++kinds[row.reason].second;
  }
  paragraph("", "Tutti would have done the same in " + audit::Thousands(agreed) + " of the last " +
                    audit::Thousands(all) + " decisions of the live controller: " +
                    Score(agreed, all) + ". From " + FormatTime(rows.back().time) + " to " +
                    FormatTime(rows.front().time) + "; nothing was written to the cluster.");
  out += "\n";
  std::vector<std::vector<std::string>> table;
  for (const auto& [kind, counts] : kinds) {
    table.push_back(
        {InWords(kind), audit::Thousands(counts.second), audit::Thousands(counts.first)});
  }
  out += audit::Table({"A WORKLOAD", "TIMES", "FORESEEN"}, table, width);
  if (agreed == all) {
    return out;
  }
  out += "\nDIFFERENCES, THE NEWEST FIRST\n";
  size_t shown = 0;
  for (const storage::LedgerRow& row : rows) {
    if (Agreed(row)) {
      continue;
    }
    if (shown++ == kShown) {
      out += "  and " + audit::Thousands(all - agreed - static_cast<int64_t>(kShown)) +
             " more (-o json has all)\n";
      break;
    }
    const auto [live, ours] = Sides(row);
    paragraph("  ",
              FormatTime(row.time) + " " + row.workload.ToString() + " " + InWords(row.reason));
    paragraph("      live:  ", live);
    paragraph("      Tutti: ", ours);
  }
  return out;
}

}  // namespace

int RunObserve(const ObserveFlags& flags) {
  const auto reader = storage::LedgerReader::Open(flags.ledger);
  const auto rows = reader ? (*reader)->Observed(flags.last)
                           : Result<std::vector<storage::LedgerRow>>(Fail(reader.error()));
  if (!rows) {
    std::fprintf(stderr, "tutti observe: %s: %s\n", flags.ledger.c_str(),
                 rows.error().message.c_str());
    return kExitBadInput;
  }
  const std::string text = flags.output == "json" ? AsJson(*rows).Dump() + "\n"
                                                  : AsText(*rows, TerminalWidth(flags.width));
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace tutti
