#include "tasks/tagging/conll_columns.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/words.h"
#include "formats/json.h"

namespace longformer::tasks {
namespace {

using Fields = std::vector<std::string>;

constexpr const char* kColumnBlanks = " \t";
constexpr std::size_t kConlluWidth = 10, kConlluTag = 3;

struct Line {
  std::int64_t number = 0;
  std::string text;
  Fields fields = {};
};

using Block = std::vector<Line>;

std::string_view without_outer_blanks(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(kColumnBlanks), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kColumnBlanks) + 1);
}

Fields split_at_blanks(std::string_view text) {
  Fields fields;
  std::size_t at = text.find_first_not_of(kColumnBlanks);
  while (at != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kColumnBlanks, at), text.size());
    fields.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kColumnBlanks, end);
  }
  return fields;
}

Fields split_at_tabs(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(kColumnBlanks) + 1);
  Fields fields;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\t', at), text.size());
    fields.emplace_back(without_outer_blanks(text.substr(at, end - at)));
    at = end + 1;
  }
  return fields;
}

/// Sentences as lines, with the comments before them.
std::vector<Block> read_blocks(const std::string& path, const DataOptions& options) {
  TextLines lines = lines_of(path, options);
  std::vector<Block> blocks(1);
  std::string line;
  while (lines.next(line)) {
    if (without_outer_blanks(line).empty() || line.starts_with("-DOCSTART-")) {
      if (!blocks.back().empty()) blocks.emplace_back();
    } else {
      blocks.back().push_back({.number = lines.number(), .text = line});
    }
  }
  return blocks;
}

bool may_be_comment(const std::string& text) { return text.starts_with('#'); }

/// "# key = value", or a border of a document.
bool is_surely_comment(const std::string& text) {
  if (text.starts_with("#begin document") || text.starts_with("#end document")) return true;
  const Fields words = split_at_blanks(std::string_view(text).substr(1));
  return text.starts_with('#') && words.size() >= 2 && words[0] != "=" && words[1] == "=";
}

/// The number of a word in its sentence.
std::optional<std::int64_t> word_number(const std::string& field) {
  const auto number = parsed_number<std::int64_t>(field);
  return number && *number >= 0 ? number : std::nullopt;
}

/// "1-2" of several words, or "1.1" of a word that is not written.
bool is_between_words(const std::string& field) {
  const std::size_t middle = std::min(field.find_first_of("-."), field.size());
  return middle < field.size() && word_number(field.substr(0, middle)) &&
         word_number(field.substr(middle + 1));
}

/// O, and such as B-PER: IOB, IOB2, BIOES, BILOU, BMES.
bool is_tag(const std::string& field) {
  return field == "O" || (field.size() > 2 && (field[1] == '-' || field[1] == '_') &&
                          std::string_view("BIESLUM").find(field[0]) != std::string_view::npos);
}

class ColumnReader {
 public:
  ColumnReader(std::string path, const DataOptions& options, const std::optional<LabelSet>& known)
      : path_(std::move(path)), options_(options), known_(known) {}

  ColumnFile read() {
    blocks_ = read_blocks(path_, options_);
    split();
    for (Block& block : blocks_) drop_comments(block);
    std::erase_if(blocks_, [](const Block& block) { return block.empty(); });
    ColumnFile file;
    if (blocks_.empty()) return file;
    // A number and its tag are a word and its tag.
    has_numbers_ = width_ > 1 && !(width_ == 2 && ends_with_tags_) && counts_words();
    if (has_numbers_) drop_other_numbers();
    choose_columns();
    for (const Block& block : blocks_) file.sentences.push_back(sentence_of(block));
    if (width_ > 2 || label_ == 0) file.note = note();
    return file;
  }

 private:
  template <typename Use>
  void each_line(const Use& use) {
    for (Block& block : blocks_) {
      for (Line& line : block) use(line);
    }
  }

  /// Splits all lines in one way, and finds how many columns most have.
  void split() {
    std::int64_t tabbed = 0, lines = 0;
    each_line([&](const Line& line) {
      if (may_be_comment(line.text)) return;
      ++lines;
      if (without_outer_blanks(line.text).find('\t') != std::string_view::npos) ++tabbed;
    });
    at_tabs_ = 2 * tabbed > lines;
    std::map<std::size_t, std::int64_t> widths;
    each_line([&](Line& line) {
      line.fields = at_tabs_ ? split_at_tabs(line.text) : split_at_blanks(line.text);
      if (!may_be_comment(line.text)) ++widths[line.fields.size()];
    });
    std::int64_t most = 0;
    for (const auto& [width, count] : widths) {
      if (count >= most) width_ = width;
      most = std::max(most, count);
    }
    ends_with_tags_ = true;
    each_line([&](const Line& line) {
      const bool counts = !may_be_comment(line.text) && is_whole(line);
      ends_with_tags_ = ends_with_tags_ && (!counts || is_tag(line.fields.back()));
    });
  }

  /// Whether a line that begins with "#" may be a word and its columns.
  bool may_be_word(const Line& line) const {
    if (!is_whole(line) || is_surely_comment(line.text)) return false;
    const bool has_other_tab = !at_tabs_ && line.text.find('\t') != std::string::npos;
    const std::string& last = line.fields.back();
    // No label has blanks.
    return !has_other_tab && last.find(' ') == std::string::npos &&
           (!ends_with_tags_ || is_tag(last));
  }

  void drop_comments(Block& block) const {
    const auto word = std::find_if(block.begin(), block.end(), [&](const Line& line) {
      return !may_be_comment(line.text) || may_be_word(line);
    });
    block.erase(block.begin(), word);
    std::erase_if(block, [](const Line& line) {
      return line.text.starts_with("#begin document") || line.text.starts_with("#end document");
    });
  }

  bool is_whole(const Line& line) const { return line.fields.size() == width_; }

  /// Whether the first column counts the words of each sentence from 1, or from 0.
  bool counts_words() const {
    return std::all_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
      std::int64_t expected = -1;
      return std::all_of(block.begin(), block.end(), [&](const Line& line) {
        const std::string& field = line.fields.front();
        if (!is_whole(line) || is_between_words(field)) return true;
        const auto number = word_number(field);
        if (expected < 0 && number && *number <= 1) expected = *number;
        return number && *number == expected++;
      });
    });
  }

  void drop_other_numbers() {
    for (Block& block : blocks_) {
      std::erase_if(block, [&](const Line& line) { return is_between_words(line.fields.front()); });
    }
    std::erase_if(blocks_, [](const Block& block) { return block.empty(); });
  }

  /// Whether all fields of a column are such.
  template <typename Is>
  bool all_of_column(std::size_t column, const Is& is) {
    bool all = true;
    each_line([&](const Line& line) { all = all && (!is_whole(line) || is(line.fields[column])); });
    return all;
  }

  template <typename Is>
  std::optional<std::size_t> last_column(const Is& is) {
    for (std::size_t column = width_; column-- > (has_numbers_ ? 1u : 0u);) {
      if (all_of_column(column, is)) return column;
    }
    return std::nullopt;
  }

  /// A column that the options give by its number.
  std::optional<std::size_t> given(const std::string& field, const char* name) const {
    const auto number = parsed_number<std::size_t>(field);
    if (!number) return std::nullopt;
    require(*number >= 1 && *number <= width_,
            "{}: {}: expected the number of a column, from 1 to {}, found {}", path_, name, width_,
            field);
    return *number - 1;
  }

  void choose_columns() {
    const std::size_t others = has_numbers_ ? 2 : 1;
    require(width_ > others, "{}:{}: expected a word and its label in columns, found {}", path_,
            blocks_.front().front().number, formats::quote(blocks_.front().front().text));
    label_ = label_column();
    const auto word = given(options_.text_field, "text_field");
    word_ = has_numbers_ ? 1 : 0;
    while (word_ == label_) ++word_;
    if (word) word_ = *word;
    require(word_ != label_ && word_ < width_,
            "{}: expected words and labels in two columns, found both in column {}", path_,
            label_ + 1);
  }

  std::size_t label_column() {
    if (!options_.label_field.empty()) {
      const auto column = given(options_.label_field, "label_field");
      require(column.has_value(),
              "{}: label_field: expected the number of a column, from 1 to {}, found {}", path_,
              width_, formats::quote(options_.label_field));
      return *column;
    }
    std::optional<std::size_t> found;
    if (known_) {
      found = last_column([&](const std::string& field) { return known_->named(field); });
    }
    if (!found) found = last_column(is_tag);
    if (found) return *found;
    const bool is_conllu = has_numbers_ && width_ == kConlluWidth;
    const std::size_t column = is_conllu ? kConlluTag : width_ - 1;
    check_repeats(column);
    return column;
  }

  /// Words are no labels: most words of a text are rare.
  void check_repeats(std::size_t column) {
    constexpr std::size_t kFew = 20;
    std::set<std::string> labels;
    std::size_t lines = 0;
    each_line([&](const Line& line) {
      if (!is_whole(line)) return;
      ++lines;
      labels.insert(line.fields[column]);
    });
    require(labels.size() <= kFew || 3 * labels.size() <= lines,
            "{}: expected labels that repeat, found {} different ones of {} words in column {}; "
            "the number of the column with the labels is to be given as label_field",
            path_, labels.size(), lines, column + 1);
    require(labels != std::set<std::string>{"_"} && labels != std::set<std::string>{"-"},
            "{}: expected labels, found \"{}\" alone in column {}; the number of the column with "
            "the labels is to be given as label_field",
            path_, *labels.begin(), column + 1);
  }

  ColumnSentence sentence_of(const Block& block) const {
    ColumnSentence sentence = {.line = block.front().number};
    sentence.place = fmt::format("{}:{}", path_, sentence.line);
    for (const Line& line : block) {
      const std::string error = error_of(line);
      if (!error.empty()) {
        sentence.place = fmt::format("{}:{}", path_, line.number);
        sentence.error = error;
        return sentence;
      }
      sentence.words.push_back(line.fields[word_]);
      sentence.labels.push_back(line.fields[label_]);
    }
    return sentence;
  }

  std::string error_of(const Line& line) const {
    if (!is_whole(line)) {
      return fmt::format("expected {} columns between {}, as most lines have, found {}: {}", width_,
                         at_tabs_ ? "tabs" : "blanks", line.fields.size(),
                         formats::quote(line.text));
    }
    if (line.fields[word_].empty() || line.fields[label_].empty()) {
      return fmt::format("expected a word and its label in columns, found {}",
                         formats::quote(line.text));
    }
    return {};
  }

  std::string note() const {
    return fmt::format("{} columns between {}: words are column {}, labels column {}{}", width_,
                       at_tabs_ ? "tabs" : "blanks", word_ + 1, label_ + 1,
                       has_numbers_ ? ", column 1 counts the words" : "");
  }

  std::string path_;
  const DataOptions& options_;
  const std::optional<LabelSet>& known_;
  std::vector<Block> blocks_;
  bool at_tabs_ = false, ends_with_tags_ = false, has_numbers_ = false;
  std::size_t width_ = 0, word_ = 0, label_ = 0;
};

}  // namespace

ColumnFile read_column_file(const std::string& path, const DataOptions& options,
                            const std::optional<LabelSet>& known) {
  return ColumnReader(path, options, known).read();
}

}  // namespace longformer::tasks
