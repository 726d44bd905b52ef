#include "tasks/coreference/coreference_data.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "engine/reading/passages.h"
#include "formats/json.h"
#include "tasks/engine_names.h"
#include "text/basic_words.h"

namespace longformer::tasks {
namespace {

/// More than any document has.
constexpr Index kMostWords = Index{1} << 40;

constexpr std::string_view kBegin = "#begin document", kEnd = "#end document";
/// Behind the name in the key of a document.
constexpr std::string_view kPart = "); part ";
constexpr std::string_view kBlanks = " \t\r\n\v\f";

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns;
  const bool tabs = line.find('\t') != std::string::npos;
  std::size_t begin = 0;
  while (begin <= line.size()) {
    const std::size_t end = std::min(line.find(tabs ? '\t' : ' ', begin), line.size());
    if (tabs || end > begin) columns.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return columns;
}

bool is_blank(const std::string& text) { return text.empty() || text == "-" || text == "_"; }

/// Mentions that have begun and not ended, and all that have.
class OpenMentions {
 public:
  /// Takes the label of a word of a line: "(1|(2)", "3)1)" and so on.
  void take(const std::string& label, Index word, std::int64_t line) {
    if (is_blank(label)) return;
    for (std::size_t place = 0; place < label.size();) {
      if (label[place] == '|') {
        ++place;
        continue;
      }
      const bool opens = label[place] == '(';
      const std::size_t begin = place + (opens ? 1 : 0);
      const std::size_t end = std::min(label.find_first_of("()|", begin), label.size());
      const bool closes = end < label.size() && label[end] == ')';
      require(end > begin && (opens || closes),
              "expected clusters such as (12, 12) or (12) in the last column, found {}",
              formats::quote(label));
      const std::string cluster = label.substr(begin, end - begin);
      const auto [number, is_new] = numbers_.try_emplace(cluster, clusters_.size());
      if (is_new) clusters_.push_back({.name = cluster});
      Cluster& known = clusters_[number->second];
      if (opens) known.open.push_back({word, line});
      if (closes) close(known, word);
      place = end + (closes ? 1 : 0);
    }
  }

  /// The clusters in the order in which they begin. Throws Error for a mention that does not end.
  std::vector<WordCluster> finish() {
    std::vector<WordCluster> clusters;
    for (Cluster& cluster : clusters_) {
      require(cluster.open.empty(),
              "expected an end of the mention of cluster {} of line {}, found none", cluster.name,
              cluster.open.empty() ? 0 : cluster.open.back().second);
      clusters.push_back(std::move(cluster.mentions));
    }
    return clusters;
  }

 private:
  struct Cluster {
    std::string name;
    WordCluster mentions = {};
    /// Word and line of each mention that has not ended.
    std::vector<std::pair<Index, std::int64_t>> open = {};
  };

  static void close(Cluster& cluster, Index word) {
    require(!cluster.open.empty(),
            "expected a beginning of the mention of cluster {} that ends here, found none",
            cluster.name);
    cluster.mentions.push_back({cluster.open.back().first, word});
    cluster.open.pop_back();
  }

  std::map<std::string, std::size_t> numbers_;
  std::vector<Cluster> clusters_;
};

/// Reads the documents of a CoNLL file line by line.
class ConllReader {
 public:
  ConllReader(const std::string& path, const DataOptions& options, CoreferenceData& data)
      : path_(path), options_(options), data_(data) {}

  void read() {
    TextLines lines = lines_of(path_, options_);
    std::string line;
    while (lines.next(line)) {
      if (line.starts_with(kBegin)) {
        finish();
        begin(line, lines.number());
      } else if (line.starts_with(kEnd)) {
        finish();
      } else {
        take(line, lines.number());
      }
    }
    finish();
  }

 private:
  void begin(const std::string& line, std::int64_t number) {
    example_ = {};
    mentions_ = {};
    error_.clear();
    sentence_begins_ = true;
    const std::size_t name = std::min(line.find_first_not_of(kBlanks, kBegin.size()), line.size());
    example_.origin = {number, line.substr(name, line.find_last_not_of(kBlanks) + 1 - name)};
    place_ = fmt::format("{}:{}", path_, number);
    is_open_ = true;
  }

  void take(const std::string& line, std::int64_t number) {
    if (line.find_first_not_of(" \t") == std::string::npos) {
      sentence_begins_ = true;
      return;
    }
    if (line.starts_with('#') && !is_open_) return;
    if (!error_.empty()) return;
    try {
      require(is_open_, "expected \"{} (NAME); part 000\" before the first word, found {}", kBegin,
              formats::quote(line));
      add_word(columns_of(line), line, number);
    } catch (const Error& broken) {
      if (!is_open_) throw Error(fmt::format("{}:{}: {}", path_, number, broken.what()));
      error_ = broken.what();
      place_ = fmt::format("{}:{}", path_, number);
    }
  }

  void add_word(const std::vector<std::string>& columns, const std::string& line,
                std::int64_t number) {
    constexpr std::size_t kWord = 3, kSpeaker = 9;
    require(columns.size() > kWord + 1 && !columns[kWord].empty(),
            "expected a word in column 4 and clusters in a last one behind it, found {}",
            formats::quote(line));
    CoreferenceWords& words = example_.words;
    const auto word = static_cast<Index>(words.words.size());
    if (std::exchange(sentence_begins_, false)) words.sentences.push_back(word);
    words.words.push_back(columns[kWord]);
    const bool named = columns.size() > kSpeaker + 1 && !is_blank(columns[kSpeaker]);
    words.speakers.push_back(named ? columns[kSpeaker] : "");
    mentions_.take(columns.back(), word, number);
  }

  void finish() {
    if (!std::exchange(is_open_, false)) return;
    read_record(place_, options_, data_.report, [&] {
      if (!error_.empty()) throw Error(error_);
      example_.clusters = mentions_.finish();
      example_.repeated_spans = put_in_order(example_.clusters);
      data_.examples.push_back(std::move(example_));
    });
  }

  const std::string& path_;
  const DataOptions& options_;
  CoreferenceData& data_;
  CoreferenceExample example_;
  OpenMentions mentions_;
  std::string place_, error_;
  bool is_open_ = false, sentence_begins_ = true;
};

/// Adds strings, or with `nested` those of the lists in a list.
void add_strings(const Json& list, const char* what, bool nested, std::vector<std::string>& to) {
  require(list.is_array(), "expected {} in the member \"{}\", found {}",
          nested ? "lists of strings" : "a list of strings", what, formats::shown(list));
  for (const Json& one : list) {
    if (nested) {
      add_strings(one, what, false, to);
      continue;
    }
    const bool none = one.is_null() && std::string_view(what) == "speakers";
    require(one.is_string() || none, "expected strings in the member \"{}\", found {}", what,
            formats::shown(one));
    to.push_back(none ? "" : one.get<std::string>());
  }
}

void add_speakers(const Json& object, CoreferenceWords& words) {
  const auto speakers = object.find("speakers");
  if (speakers == object.end() || speakers->is_null()) return;
  const bool nested = speakers->is_array() && !speakers->empty() && speakers->front().is_array();
  add_strings(*speakers, "speakers", nested, words.speakers);
  // A list of none says that nobody is named.
  if (words.speakers.empty()) return;
  require(words.speakers.size() == words.words.size(),
          "expected a speaker for each of {} words, found {}", words.words.size(),
          words.speakers.size());
  for (std::string& name : words.speakers) {
    if (is_blank(name)) name.clear();
  }
}

/// The words of an object; characters of each where it is a text.
CoreferenceWords words_of(const Json& object, std::vector<CharacterSpan>& characters) {
  CoreferenceWords words;
  if (object.contains("sentences")) {
    for (const Json& sentence : list_member(object, "sentences")) {
      const auto begin = static_cast<Index>(words.words.size());
      add_strings(sentence, "sentences", false, words.words);
      if (static_cast<Index>(words.words.size()) > begin) words.sentences.push_back(begin);
    }
  } else if (object.contains("tokens")) {
    add_strings(object["tokens"], "tokens", false, words.words);
  } else {
    require(object.contains("text"),
            "expected the words in the member \"sentences\", \"tokens\" or \"text\", found none");
    TextWords text = words_of_text(string_member(object, "text"));
    characters = std::move(text.characters);
    words = std::move(text.words);
  }
  add_speakers(object, words);
  return words;
}

/// The word with this border among words at characters of a text; −1 for none.
Index word_at(std::span<const CharacterSpan> characters, std::int64_t place, bool begins) {
  const auto border = [&](const CharacterSpan& word) { return begins ? word.begin : word.end; };
  const auto found = std::ranges::lower_bound(characters, place, {}, border);
  if (found == characters.end() || border(*found) != place) return -1;
  return found - characters.begin();
}

/// Range of the mentions of an object.
struct MentionSpace {
  Index words = 0;
  /// The characters of each word; where clusters speak of characters.
  std::vector<CharacterSpan> characters = {};
  bool is_text = false;
};

WordSpan mention_of(const Json& mention, const MentionSpace& space) {
  const bool pair = mention.is_array() && mention.size() == 2 && mention[0].is_number_integer() &&
                    mention[1].is_number_integer();
  require(pair, "expected mentions [first, last], found {}", formats::shown(mention));
  WordSpan span = {mention[0].get<std::int64_t>(), mention[1].get<std::int64_t>()};
  if (space.is_text) {
    span = {word_at(space.characters, span.first, true),
            word_at(space.characters, span.last, false)};
  }
  require(span.first >= 0 && span.first <= span.last && span.last < space.words,
          "expected a mention of whole words among {}, found {}", space.words,
          formats::shown(mention));
  return span;
}

CoreferenceExample example_of(const Json& object, const Record& record,
                              const CoreferenceMembers& members) {
  CoreferenceExample example;
  const auto key = object.find("doc_key");
  const bool has_key = key != object.end() && !key->is_null();
  example.origin = origin_of(object, record);
  if (has_key) {
    example.origin.id = scalar_text(*key, "doc_key");
    example.origin.number.clear();
  }
  if (example.origin.id.empty()) {
    example.origin.id = line_and_record(record.number, record.record);
  }
  const bool has_lists = object.contains("sentences") || object.contains("tokens");
  MentionSpace space = {.words = kMostWords,
                        .is_text = !has_lists && (members.words || object.contains("text"))};
  if (has_lists || space.is_text) {
    example.words = words_of(object, space.characters);
    space.words = std::ssize(example.words.words);
  }
  if (!members.clusters && !object.contains("clusters")) return example;
  for (const Json& cluster : list_member(object, "clusters")) {
    require(cluster.is_array() && !cluster.empty(),
            "expected lists of mentions as clusters, found {}", formats::shown(cluster));
    WordCluster& mentions = example.clusters.emplace_back();
    for (const Json& mention : cluster) mentions.push_back(mention_of(mention, space));
  }
  return example;
}

/// A text without blanks, as columns are.
std::string column_of(std::string text) {
  for (char& character : text) {
    if (kBlanks.find(character) != std::string_view::npos) character = '_';
  }
  return text.empty() ? "_" : text;
}

/// The last column for each of `words` words.
std::vector<std::string> conll_labels(const std::vector<WordCluster>& clusters, std::size_t words) {
  struct Border {
    Index length = 0;
    std::size_t cluster = 0;
    bool operator<(const Border& other) const {
      return std::pair(length, cluster) < std::pair(other.length, other.cluster);
    }
  };
  std::vector<std::vector<Border>> begins(words), ends(words);
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    for (const WordSpan& mention : clusters[c]) {
      const Index length = mention.last - mention.first;
      begins[at(mention.first)].push_back({length, c});
      if (length > 0) ends[at(mention.last)].push_back({length, c});
    }
  }
  std::vector<std::string> labels;
  for (std::size_t w = 0; w < words; ++w) {
    // The innermost mention begins last and ends first.
    std::sort(begins[w].rbegin(), begins[w].rend());
    std::sort(ends[w].begin(), ends[w].end());
    std::string label;
    const auto add = [&](const std::string& part) { label += (label.empty() ? "" : "|") + part; };
    for (const Border& end : ends[w]) add(fmt::format("{})", end.cluster));
    for (const Border& begin : begins[w]) {
      add(fmt::format("({}{}", begin.cluster, begin.length == 0 ? ")" : ""));
    }
    labels.push_back(label.empty() ? "-" : label);
  }
  return labels;
}

}  // namespace

CoreferenceData read_coreference(const std::string& path, const DataOptions& given,
                                 const CoreferenceMembers& members) {
  DataOptions options = given;
  if (options.format.empty()) options.format = detect_format(path, options, "conll");
  CoreferenceData data;
  data.path = path;
  if (options.format == "conll") {
    ConllReader(path, options, data).read();
  } else {
    require(options.format == "json" || options.format == "jsonl", OptionName("data.format"),
            "expected conll, jsonl or json for coreference, found {}", options.format);
    read_objects(path, options, data.report, [&](const Json& object, const Record& record) {
      CoreferenceExample example = example_of(object, record, members);
      example.repeated_spans = put_in_order(example.clusters);
      data.examples.push_back(std::move(example));
    });
  }
  check_any(path, data.examples.size(), data.report, "document");
  count_examples(data);
  return data;
}

void count_examples(CoreferenceData& data) {
  data.report.empty = 0;
  data.repeated_spans = data.mentions = data.clusters = data.singletons = 0;
  for (const CoreferenceExample& example : data.examples) {
    if (example.words.words.empty()) ++data.report.empty;
    data.repeated_spans += example.repeated_spans;
    data.clusters += std::ssize(example.clusters);
    for (const WordCluster& cluster : example.clusters) {
      data.mentions += std::ssize(cluster);
      data.singletons += cluster.size() == 1 ? 1 : 0;
    }
  }
}

TextWords words_of_text(std::string_view text) {
  TextWords result;
  result.characters = text::basic_words(text);
  const std::vector<std::size_t> starts = character_starts(text);
  for (const CharacterSpan& word : result.characters) {
    const std::size_t begin = starts[at(word.begin)];
    result.words.words.emplace_back(text.substr(begin, starts[at(word.end)] - begin));
  }
  result.words.sentences = sentence_starts(text, result.characters);
  return result;
}

std::int64_t put_in_order(std::vector<WordCluster>& clusters) {
  std::set<WordSpan> seen;
  std::int64_t repeated = 0;
  for (WordCluster& cluster : clusters) {
    std::erase_if(cluster, [&](const WordSpan& mention) {
      const bool known = !seen.insert(mention).second;
      repeated += known ? 1 : 0;
      return known;
    });
    std::sort(cluster.begin(), cluster.end());
  }
  std::erase_if(clusters, [](const WordCluster& cluster) { return cluster.empty(); });
  std::sort(clusters.begin(), clusters.end());
  return repeated;
}

std::string conll_key(const std::string& key) {
  const bool is_conll = key.starts_with('(') && key.find(kPart) != std::string::npos;
  std::string title = is_conll ? key : fmt::format("({}{}000", key, kPart);
  for (char& character : title) {
    if (kBlanks.find(character) != std::string_view::npos) character = ' ';
  }
  title.erase(title.find_last_not_of(' ') + 1);
  return title;
}

std::string conll_text(const CoreferenceExample& document,
                       const std::vector<WordCluster>& clusters) {
  const CoreferenceWords& words = document.words;
  const std::string key = conll_key(document.origin.id);
  const std::string name = column_of(key.substr(1, key.find(kPart) - 1));
  std::string text = fmt::format("{} {}\n", kBegin, key);
  const std::vector<std::string> labels = conll_labels(clusters, words.words.size());
  std::size_t sentence = 0, begin = 0;
  for (std::size_t w = 0; w < words.words.size(); ++w) {
    if (sentence < words.sentences.size() && at(words.sentences[sentence]) == w) {
      if (w > 0) text += "\n";
      ++sentence;
      begin = w;
    }
    text +=
        fmt::format("{}\t0\t{}\t{}\t{}\n", name, w - begin, column_of(words.words[w]), labels[w]);
  }
  return text + fmt::format("\n{}\n", kEnd);
}

}  // namespace longformer::tasks
