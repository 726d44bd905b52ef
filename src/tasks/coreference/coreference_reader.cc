#include "tasks/coreference/coreference_reader.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "core/error.h"

namespace longformer::tasks {
namespace {

ReadingOptions reading_of(ReadingOptions options, const CoreferenceOptions& coreference,
                          const CoreferenceConfig& config) {
  Index most = coreference.max_segment_tokens;
  if (most == 0) most = config.max_segment_tokens;
  if (most > 0) options.max_tokens = std::min(options.max_tokens, most);
  if (options.too_long == TooLong::refuse) {
    options.too_long = TooLong::split;
    // A short segment cannot share the usual number of tokens with its neighbour.
    options.stride = std::min(options.stride, options.max_tokens / 4);
  }
  return options;
}

/// Whether at least two are named.
bool has_conversation(const CoreferenceWords& document) {
  std::set<std::string> names(document.speakers.begin(), document.speakers.end());
  names.erase("");
  return names.size() > 1;
}

}  // namespace

CoreferenceSegments segments_named(const std::string& name, CoreferenceSegments otherwise) {
  if (name.empty()) return otherwise;
  const auto& names = kCoreferenceSegments;
  const auto found = std::find(names.begin(), names.end(), name);
  require(found != names.end(), OptionName("segments"), "expected one of {}, found {}",
          fmt::join(names, ", "), name);
  return static_cast<CoreferenceSegments>(found - names.begin());
}

CoreferenceReader::CoreferenceReader(const Tokenizer& tokenizer, ReadingOptions options,
                                     const CoreferenceOptions& coreference,
                                     const CoreferenceConfig& config)
    : tokenizer_(tokenizer),
      rows_(tokenizer, reading_of(std::move(options), coreference, config)),
      segments_(segments_named(coreference.segments, config.segments)),
      widest_(config.max_span_width),
      same_sentence_(config.same_sentence) {
  const auto begin = tokenizer.id(kSpeakerMarks[0]), end = tokenizer.id(kSpeakerMarks[1]);
  if (begin && end) marks_ = {*begin, *end};
  // Folders of fastcoref have no such tokens, and read what is said without who says it.
  knows_speakers_ = marks_ || config.segments != CoreferenceSegments::continued;
}

Encoding CoreferenceReader::word_tokens(const std::string& word) const {
  Encoding tokens = encode_words(tokenizer_, {&word, 1}).tokens;
  for (const std::int32_t id : tokens.ids) {
    require(!marks_ || (id != (*marks_)[0] && id != (*marks_)[1]),
            "expected words and names without the special tokens {} and {}, found {}",
            kSpeakerMarks[0], kSpeakerMarks[1], word);
  }
  return tokens;
}

void CoreferenceReader::add_speaker(const std::string& name, Pieces& pieces) const {
  append_token(pieces.tokens, (*marks_)[0], 0, false);
  append_text(pieces.tokens, word_tokens(name), 0);
  append_token(pieces.tokens, (*marks_)[1], 0, false);
}

CoreferenceReader::Pieces CoreferenceReader::pieces_of(const CoreferenceWords& document) const {
  Pieces pieces;
  const bool speaks = has_conversation(document) && knows_speakers_;
  require(!speaks || marks_,
          "expected the special token {} for a document with speakers, found none",
          kSpeakerMarks[0]);
  std::string speaker;
  for (std::size_t w = 0; w < document.words.size(); ++w) {
    pieces.begin.push_back(std::ssize(pieces.tokens.ids));
    if (speaks && document.speakers[w] != speaker) {
      speaker = document.speakers[w];
      if (!speaker.empty()) add_speaker(speaker, pieces);
    }
    const Encoding word = word_tokens(document.words[w]);
    pieces.first.push_back(std::ssize(pieces.tokens.ids));
    append_text(pieces.tokens, word, 0);
    if (word.ids.empty()) {
      append_token(pieces.tokens, tokenizer_.special_tokens().unk.value_or(0), 0, false);
    }
    pieces.last.push_back(std::ssize(pieces.tokens.ids) - 1);
  }
  return pieces;
}

std::vector<TokenRange> CoreferenceReader::segments_of(const CoreferenceWords& document,
                                                       const Pieces& pieces) const {
  const Index tokens = std::ssize(pieces.tokens.ids);
  const Index around = rows_.around().size(), most = rows_.options().max_tokens;
  const bool splits = rows_.options().too_long == TooLong::split;
  if (segments_ == CoreferenceSegments::overlapping || !splits) {
    return rows_of(rows_.options(), tokens, around, "special tokens");
  }
  std::vector<TokenRange> segments;
  if (is_continued()) {
    for (Index end = 0, row = 0; row < tokens + around; row += most) {
      const Index begin = end;
      end = std::clamp(row + most - rows_.around().prefix(), begin, tokens);
      segments.push_back({begin, end});
    }
    return segments;
  }
  const Index capacity = most - around;
  segments.push_back({0, 0});
  for (const TokenRange& sentence : sentences_of(document)) {
    const bool is_last = sentence.end == std::ssize(document.words);
    const Index end = is_last ? tokens : pieces.begin[at(sentence.end)];
    if (segments.back().size() > 0 && end - segments.back().begin > capacity) {
      segments.push_back({segments.back().end, segments.back().end});
    }
    while (end - segments.back().begin > capacity) {
      segments.back().end = segments.back().begin + capacity;
      segments.push_back({segments.back().end, segments.back().end});
    }
    segments.back().end = end;
  }
  return segments;
}

bool CoreferenceReader::is_continued() const {
  return segments_ == CoreferenceSegments::continued && rows_.options().too_long == TooLong::split;
}

std::vector<Index> CoreferenceReader::add_rows(Reading& reading) const {
  std::vector<Index> places;
  if (is_continued()) {
    const Encoding whole = rows_.around().around(reading.encoding, {0, reading.read()});
    const Index count = std::ssize(whole.ids), most = rows_.options().max_tokens;
    for (Index begin = 0; begin < count; begin += most) {
      const TokenRange range = {begin, std::min(count, begin + most)};
      reading.rows.push_back(rows_.row_of(slice(whole, range), ""));
    }
    places.resize(at(reading.read()));
    std::iota(places.begin(), places.end(), reading.prefix);
    return places;
  }
  const auto owned = owned_tokens(reading.ranges, reading.read());
  Index row = 0;
  for (std::size_t s = 0; s < owned.size(); ++s) {
    reading.rows.push_back(
        rows_.row_of(rows_.around().around(reading.encoding, reading.ranges[s]), ""));
    for (Index token = owned[s].begin; token < owned[s].end; ++token) {
      places.push_back(row + reading.prefix + token - reading.ranges[s].begin);
    }
    row += std::ssize(reading.rows.back().ids);
  }
  return places;
}

CoreferenceReading CoreferenceReader::read(const CoreferenceWords& document) const {
  Pieces pieces = pieces_of(document);
  CoreferenceReading result;
  Reading& reading = result.reading;
  const Index tokens = std::ssize(pieces.tokens.ids);
  reading.ranges = segments_of(document, pieces);
  reading.encoding = std::move(pieces.tokens);
  reading.prefix = rows_.around().prefix();
  reading.tokens = tokens + rows_.around().size();
  reading.truncated = tokens - reading.read();
  reading.word_count = document.words.size();
  const std::vector<Index> places = add_rows(reading);
  CoreferenceTarget& words = result.words;
  words.tokens = reading.read() + (is_continued() ? rows_.around().size() : 0);
  const auto behind = std::upper_bound(pieces.last.begin(), pieces.last.end(), reading.read() - 1);
  const Index read = behind - pieces.last.begin();
  result.unread_words = std::ssize(document.words) - read;
  for (const TokenRange& sentence : sentences_of(document)) {
    const bool bounded = same_sentence_ && !document.sentences.empty();
    for (Index w = sentence.begin; w < std::min(sentence.end, read); ++w) {
      words.first_tokens.push_back(places[at(pieces.first[at(w)])]);
      words.last_tokens.push_back(places[at(pieces.last[at(w)])]);
      words.mention_ends.push_back(std::min({bounded ? sentence.end : read, read, w + widest_}));
    }
  }
  return result;
}

std::vector<Index> CoreferenceReader::sentence_tokens(const CoreferenceWords& document) const {
  const Pieces pieces = pieces_of(document);
  std::vector<Index> counts;
  for (const TokenRange& sentence : sentences_of(document)) {
    const bool is_last = sentence.end == std::ssize(document.words);
    const Index end = is_last ? std::ssize(pieces.tokens.ids) : pieces.begin[at(sentence.end)];
    counts.push_back(end - pieces.begin[at(sentence.begin)]);
  }
  return counts;
}

CoreferenceExample part_of(const CoreferenceExample& example, TokenRange words) {
  const auto cut = [&](const auto& all) {
    using List = std::decay_t<decltype(all)>;
    return all.empty() ? List() : List(all.begin() + words.begin, all.begin() + words.end);
  };
  CoreferenceExample part;
  part.origin = example.origin;
  part.words.words = cut(example.words.words);
  part.words.speakers = cut(example.words.speakers);
  for (const Index sentence : example.words.sentences) {
    if (sentence >= words.begin && sentence < words.end) {
      part.words.sentences.push_back(sentence - words.begin);
    }
  }
  for (const WordCluster& cluster : example.clusters) {
    WordCluster kept;
    for (const WordSpan& mention : cluster) {
      if (mention.first < words.begin || mention.last >= words.end) continue;
      kept.push_back({mention.first - words.begin, mention.last - words.begin});
    }
    if (!kept.empty()) part.clusters.push_back(std::move(kept));
  }
  return part;
}

std::vector<TokenRange> sentences_of(const CoreferenceWords& document) {
  const Index words = std::ssize(document.words);
  std::vector<TokenRange> sentences;
  if (document.sentences.empty()) {
    for (Index w = 0; w < words; ++w) sentences.push_back({w, w + 1});
  }
  for (std::size_t s = 0; s < document.sentences.size(); ++s) {
    const bool is_last = s + 1 == document.sentences.size();
    sentences.push_back({document.sentences[s], is_last ? words : document.sentences[s + 1]});
  }
  return sentences;
}

}  // namespace longformer::tasks
