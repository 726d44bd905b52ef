#include "coreference/forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "coreference/page.h"

namespace longformer::cli {
namespace {

struct NumberedMention {
  /// From 1.
  std::size_t cluster = 0;
  const Mention* mention = nullptr;
};

/// In the order of the text; of mentions that begin together the longest first.
std::vector<NumberedMention> in_order(const CoreferenceOutcome& found) {
  std::vector<NumberedMention> all;
  for (std::size_t c = 0; c < found.clusters.size(); ++c) {
    for (const Mention& mention : found.clusters[c]) all.push_back({c + 1, &mention});
  }
  std::sort(all.begin(), all.end(), [](const NumberedMention& a, const NumberedMention& b) {
    const CharacterSpan &x = a.mention->span, &y = b.mention->span;
    return x.begin != y.begin ? x.begin < y.begin : x.end > y.end;
  });
  return all;
}

void write_lines(Output& output, const ResolvedDocument& resolved) {
  for (const auto& [cluster, mention] : in_order(resolved.found)) {
    output.write(fmt::format("{}\t{}\t{}\t{}\t{}\n", resolved.document.field(), cluster,
                             mention->span.begin, mention->span.end, on_one_line(mention->text)));
  }
}

void write_json(Output& output, const ResolvedDocument& resolved) {
  output.write_object(resolved.document.json().add_members(to_json(resolved.found)).object());
}

/// Place of a bracket in the text.
struct Bracket {
  std::int64_t place = 0;
  bool opens = false;
  std::int64_t length = 0;
  std::size_t cluster = 0;
};

void write_marked(Output& output, const ResolvedDocument& resolved) {
  std::vector<Bracket> brackets;
  for (const auto& [cluster, mention] : in_order(resolved.found)) {
    const CharacterSpan& span = mention->span;
    brackets.push_back({span.begin, true, span.end - span.begin, cluster});
    brackets.push_back({span.end, false, span.end - span.begin, cluster});
  }
  // Closing brackets precede opening ones; the longest mention opens first and closes last.
  std::stable_sort(brackets.begin(), brackets.end(), [](const Bracket& a, const Bracket& b) {
    if (a.place != b.place) return a.place < b.place;
    if (a.opens != b.opens) return b.opens;
    return a.opens ? a.length > b.length : a.length < b.length;
  });
  const std::string& text = resolved.document.text;
  const std::vector<std::size_t> starts = character_starts(text);
  std::string marked;
  std::size_t done = 0;
  for (const Bracket& bracket : brackets) {
    const std::size_t place = starts[static_cast<std::size_t>(bracket.place)];
    marked += text.substr(done, place - done);
    marked += bracket.opens ? fmt::format("[{} ", bracket.cluster) : "]";
    done = place;
  }
  marked += text.substr(done);
  if (!marked.ends_with('\n')) marked += '\n';
  output.write(marked);
}

}  // namespace

void write_coreference(Output& output, const ResolvedDocument& resolved, CoreferenceFormat format) {
  switch (format) {
    case CoreferenceFormat::text:
      return write_lines(output, resolved);
    case CoreferenceFormat::json:
      return write_json(output, resolved);
    case CoreferenceFormat::conll:
      return output.write(
          conll_text(resolved.document.text, resolved.found, resolved.document.field()));
    case CoreferenceFormat::marked:
      return write_marked(output, resolved);
    case CoreferenceFormat::html:
      return output.write(coreference_page(resolved));
    case CoreferenceFormat::table:
      return;
  }
}

}  // namespace longformer::cli
