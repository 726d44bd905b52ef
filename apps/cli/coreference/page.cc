#include "coreference/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "html.h"
#include "page_text.h"

namespace longformer::cli {
namespace {

using Names = std::map<std::string, std::int64_t>;

/// Whether a text looks like a name: a capital that the document never writes small.
bool looks_like_name(const std::string& text, const Names& chains_with) {
  if (text.size() < 2 || text[0] < 'A' || text[0] > 'Z') return false;
  std::string small = text;
  small[0] = static_cast<char>(small[0] - 'A' + 'a');
  return !chains_with.contains(small);
}

/// Title of each chain: its commonest name; without one the text that tells it from other chains,
/// often in it and in few of them.
std::vector<std::string> names_of(const CoreferenceOutcome& found) {
  Names chains_with;
  std::vector<Names> all;
  for (const std::vector<Mention>& cluster : found.clusters) {
    Names& names = all.emplace_back();
    for (const Mention& mention : cluster) ++names[on_one_line(mention.text)];
    for (const auto& [name, count] : names) ++chains_with[name];
  }
  // A single name in a long chain is more likely a mistake of the model.
  constexpr std::size_t kLongChain = 10;
  std::vector<std::string> result;
  for (std::size_t c = 0; c < all.size(); ++c) {
    const bool is_long = found.clusters[c].size() > kLongChain;
    std::string best;
    std::pair<bool, double> highest = {false, -1};
    for (const auto& [name, count] : all[c]) {
      const double often = std::log1p(static_cast<double>(count));
      const double rare =
          std::log1p(static_cast<double>(all.size()) / static_cast<double>(chains_with[name]));
      const bool is_name = looks_like_name(name, chains_with) && (count > 1 || !is_long);
      const std::pair<bool, double> score = {is_name, is_name ? often : often * rare * rare};
      if (score <= highest) continue;
      highest = score;
      best = name;
    }
    result.push_back(best);
  }
  return result;
}

/// The text cut where mentions begin and end, and the mentions that cover each piece, the longest
/// first. Mentions are numbered in the order of the chains.
struct Pieces {
  std::vector<std::string> texts;
  std::vector<std::string> mentions;
};

struct Border {
  std::int64_t place = 0;
  bool begins = false;
  std::int64_t mention = 0;
};

Pieces pieces_of(const ResolvedDocument& resolved) {
  std::vector<CharacterSpan> spans;
  for (const std::vector<Mention>& cluster : resolved.found.clusters) {
    for (const Mention& mention : cluster) spans.push_back(mention.span);
  }
  std::vector<Border> borders;
  for (std::size_t m = 0; m < spans.size(); ++m) {
    borders.push_back({spans[m].begin, true, static_cast<std::int64_t>(m)});
    borders.push_back({spans[m].end, false, static_cast<std::int64_t>(m)});
  }
  std::sort(borders.begin(), borders.end(),
            [](const Border& a, const Border& b) { return a.place < b.place; });
  const auto longer = [&spans](std::int64_t a, std::int64_t b) {
    const CharacterSpan &x = spans[static_cast<std::size_t>(a)],
                        &y = spans[static_cast<std::size_t>(b)];
    return x.end - x.begin > y.end - y.begin;
  };
  const std::string& text = resolved.document.text;
  const std::vector<std::size_t> starts = character_starts(text);
  Pieces pieces;
  std::set<std::int64_t> open;
  std::int64_t done = 0;
  const auto add = [&](std::int64_t end) {
    if (end == done) return;
    const std::size_t begin = starts[static_cast<std::size_t>(done)];
    pieces.texts.push_back(text.substr(begin, starts[static_cast<std::size_t>(end)] - begin));
    std::vector<std::int64_t> covering(open.begin(), open.end());
    std::stable_sort(covering.begin(), covering.end(), longer);
    pieces.mentions.push_back(fmt::format("[{}]", fmt::join(covering, ",")));
    done = end;
  };
  for (const Border& border : borders) {
    add(border.place);
    if (border.begins) {
      open.insert(border.mention);
    } else {
      open.erase(border.mention);
    }
  }
  add(static_cast<std::int64_t>(starts.size()) - 1);
  return pieces;
}

}  // namespace

std::string coreference_page(const ResolvedDocument& resolved) {
  const CoreferenceOutcome& found = resolved.found;
  std::vector<std::int64_t> sizes;
  std::int64_t mentions = 0;
  for (const std::vector<Mention>& cluster : found.clusters) {
    sizes.push_back(static_cast<std::int64_t>(cluster.size()));
    mentions += sizes.back();
  }
  const Pieces pieces = pieces_of(resolved);
  JsonLine json;
  json.add("title", "Who is who in " + resolved.document.label());
  json.add(
      "about",
      fmt::format("{} · {} · {} in {}", resolved.model, counted(std::ssize(found.words), "word"),
                  counted(mentions, "mention"), counted(std::ssize(found.clusters), "chain")));
  json.add("names", names_of(found)).add("sizes", sizes).add("pieces", pieces.texts);
  json.add_json("mentions", fmt::format("[{}]", fmt::join(pieces.mentions, ",")));
  return filled_page(kCoreferencePage, "Who is who: " + resolved.model, json.object());
}

}  // namespace longformer::cli
