// Documents of a search index: their texts out of passages, and two of them side by side.
//
// Reruns: tsan
#include "longformer/search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "core/random.h"
#include "error_testing.h"
#include "fixtures.h"
#include "index/database.h"
#include "index/passage_store.h"
#include "temporary_folder.h"

namespace longformer::search_test {
namespace {

const Embedder& embedder() {
  static const Embedder loaded =
      Embedder::load((fixtures_folder() / "sentence_dense").string(), {.threads = 2});
  return loaded;
}

SearchOptions with_passages(std::int64_t tokens) {
  SearchOptions options;
  options.passages.passage_tokens = tokens;
  options.passages.context = PassageContext::none;
  return options;
}

/// Passages of characters of an ASCII text, without a meaning.
Embedding passages_of(std::vector<CharacterSpan> spans, std::int64_t width) {
  Embedding passages;
  passages.rows = std::ssize(spans);
  passages.spans = std::move(spans);
  passages.values.assign(static_cast<std::size_t>(passages.rows * width), 0.5f);
  return passages;
}

/// Characters begin … end − 1 of a text.
std::string cut(const std::string& text, std::int64_t begin, std::int64_t end) {
  const std::vector<std::size_t> starts = character_starts(text);
  const std::size_t first = starts.at(static_cast<std::size_t>(begin));
  return text.substr(first, starts.at(static_cast<std::size_t>(end)) - first);
}

/// White space apart, every part of the stored text is that of the document.
void expect_parts(const SearchIndex& index, const std::string& name, const std::string& text) {
  const std::int64_t characters = index.document(name).value().characters;
  for (std::int64_t begin = 0; begin <= characters; begin += 3) {
    for (std::int64_t end = begin; end <= characters; end += 7) {
      std::string wanted = cut(text, begin, end), found = index.text(name, {begin, end});
      ASSERT_EQ(std::ssize(character_starts(found)) - 1, end - begin);
      for (char& c : wanted) c = c == '\n' ? ' ' : c;
      for (char& c : found) c = c == '\n' ? ' ' : c;
      ASSERT_EQ(found, wanted) << begin << " " << end;
    }
  }
}

constexpr const char* kStory =
    "  😀 They were all there. She had one of them, 😀 and it was his.\n\n\nIt is not what they "
    "said! 𝔘nd so weiter. But one of them had more than the other: naïve 日本 people.\nThen "
    "she said no.";

TEST(SearchText, EveryCharacterIsInItsPlace) {
  for (const bool overlapping : {false, true}) {
    for (const std::int64_t tokens : {3, 8, 16}) {
      SearchOptions options = with_passages(tokens);
      options.passages.overlapping_passages = overlapping;
      SearchIndex index(embedder(), options);
      index.add(embedder(), "before", "one of them. All of them.");
      index.add(embedder(), "story", kStory);
      index.add(embedder(), "behind", "they said. It was more.");
      EXPECT_EQ(index.document("story").value().characters,
                std::ssize(character_starts(kStory)) - 1);
      expect_parts(index, "story", kStory);
    }
  }
}

TEST(SearchText, GapsBecomeBlanksAndLineBreaks) {
  SearchIndex index(embedder());
  const std::string text = "  ab cd\t\t\t\tef\n\ngh";
  index.put("text", text, passages_of({{2, 4}, {5, 7}, {11, 13}, {15, 17}}, index.vector_size()));
  EXPECT_EQ(index.text("text", {0, 17}), "\n\nab cd\n  \nef\n\ngh");
  EXPECT_EQ(index.text("text", {8, 12}), "  \ne");
  EXPECT_EQ(index.text("text", {10, 11}), "\n");
  EXPECT_EQ(index.text("text", {0, 1}), "\n");
  EXPECT_EQ(index.text("text", {4, 5}), " ");
}

TEST(SearchText, OverlappingPassagesGiveEachCharacterOnce) {
  SearchIndex index(embedder());
  const std::string text = "abcdefghij";
  index.put("text", text, passages_of({{0, 4}, {2, 6}, {4, 9}, {9, 10}}, index.vector_size()));
  for (std::int64_t begin = 0; begin <= 10; ++begin) {
    for (std::int64_t end = begin; end <= 10; ++end) {
      EXPECT_EQ(index.text("text", {begin, end}), cut(text, begin, end));
    }
  }
}

TEST(SearchText, SpansAreClamped) {
  SearchIndex index(embedder(), with_passages(12));
  index.add(embedder(), "text", "they were all there");
  EXPECT_EQ(index.text("text", {-5, 1000}), "they were all there");
  EXPECT_EQ(index.text("text", {15, 1000}), "here");
  EXPECT_EQ(index.text("text", {1000, 2000}), "");
  EXPECT_EQ(index.text("text", {7, 3}), "");
  EXPECT_EQ(index.text("text", {-7, -3}), "");
  index.add(embedder(), "empty", "  \n ");
  EXPECT_EQ(index.text("empty", {0, 10}), "");
}

TEST(SearchText, UnknownNamesAreErrors) {
  SearchIndex index(embedder(), with_passages(12));
  index.add(embedder(), "folder/text", "they were all there");
  EXPECT_FALSE(index.document("folder").has_value());
  EXPECT_EQ(index.document("folder/text").value().hash,
            SearchIndex::hash_of("they were all there"));
  expect_error(error_of([&] { index.text("folder", {0, 3}); }), {"document 'folder'", "none"});
  expect_error(error_of([&] { index.compare("folder/text", "b"); }), {"document 'b'", "none"});
  expect_error(error_of([&] { index.compare("", "folder/text"); }), {"document ''", "none"});
}

TEST(SearchIndex, PreparedDocumentsAndQuestionsAreThoseOfOneCall) {
  const SearchOptions options = with_passages(6);
  SearchIndex whole(embedder(), options), parts(embedder(), options);
  whole.add(embedder(), "story", kStory);
  parts.put("story", kStory, parts.prepare(embedder(), kStory));
  for (const SearchMode mode : {SearchMode::hybrid, SearchMode::dense, SearchMode::lexical}) {
    const SearchQuery query = {.question = "one of them", .top_k = 20, .mode = mode};
    const auto wanted = whole.query(embedder(), query);
    const auto found = parts.query(parts.vectors_of(embedder(), query), query);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(to_json(found[i]), to_json(wanted[i]));
  }
  EXPECT_TRUE(SearchIndex(embedder())
                  .query(parts.vectors_of(embedder(), {.question = "x"}), {.question = "x"})
                  .empty());
  expect_error(error_of([&] {
                 parts.query(
                     QuestionVectors{.dense = std::vector<float>(3), .sparse = {}, .multi = {}},
                     {.question = "x"});
               }),
               {"expected", "found 3"});
}

TEST(SearchIndex, AllHitsMayBeAskedFor) {
  SearchIndex index(embedder(), with_passages(6));
  index.add(embedder(), "story", kStory);
  const std::int64_t all = index.passages();
  for (const std::int64_t top :
       {all, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max()}) {
    for (const SearchMode mode : {SearchMode::hybrid, SearchMode::dense, SearchMode::lexical}) {
      const SearchQuery query = {.question = "they said one of them", .top_k = top, .mode = mode};
      EXPECT_LE(std::ssize(index.query(embedder(), query)), all);
      EXPECT_EQ(std::ssize(index.rank(embedder(), query)), 1);
    }
    EXPECT_EQ(std::ssize(index.query(embedder(),
                                     {.question = "x", .top_k = top, .mode = SearchMode::dense})),
              all);
  }
}

/// Vectors that are alike in bytes are told apart, however many there are.
TEST(SearchIndex, TheBestAreThoseOfTheExactVectors) {
  SearchIndex index(embedder());
  const auto width = static_cast<std::size_t>(index.vector_size());
  const auto unit = [&](std::uint64_t seed, float deviation) {
    std::vector<float> vector = random_normal_tensor({index.vector_size()}, 1, 1).to_floats();
    const auto noise = random_normal_tensor({index.vector_size()}, deviation, seed).to_floats();
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) {
      vector[i] += noise[i];
      squares += static_cast<double>(vector[i]) * vector[i];
    }
    for (float& one : vector) one = static_cast<float>(one / std::sqrt(squares));
    return vector;
  };
  const std::vector<float> question = unit(5000, 0.5f);
  std::vector<std::pair<double, std::string>> wanted;
  for (std::uint64_t i = 0; i < 700; ++i) {
    Embedding passage = passages_of({{0, 4}}, index.vector_size());
    passage.values = unit(10 + i, 1e-3f);
    const std::string name = fmt::format("{:03}", i);
    index.put(name, "text", passage);
    wanted.emplace_back(
        -std::inner_product(question.begin(), question.end(), passage.values.begin(), 0.0), name);
  }
  std::sort(wanted.begin(), wanted.end());
  const QuestionVectors vectors = {.dense = question, .sparse = {}, .multi = {}};
  for (const std::int64_t top : {1, 10, 50}) {
    const auto found =
        index.query(vectors, {.question = "x", .top_k = top, .mode = SearchMode::dense});
    ASSERT_EQ(std::ssize(found), top);
    // Either may come first where scores are equal in fp32.
    for (std::int64_t i = 0; i < top; ++i) {
      EXPECT_TRUE(std::abs(found[at(i)].score + wanted[at(i)].first) <= 2e-7) << i;
    }
  }
}

/// Vectors of further documents join those that were read for a question before.
TEST(SearchIndex, QuestionsSeeWhatChangedInBetween) {
  const Embedder all = Embedder::load((fixtures_folder() / "vectors_bge").string(), {.threads = 2});
  SearchOptions options = with_passages(6);
  options.vectors = VectorKinds{.dense = true, .sparse = true, .multi = true};
  SearchIndex index(all, options);
  std::vector<std::pair<std::string, std::string>> documents;
  const auto expect_alike = [&] {
    SearchIndex fresh(all, options);
    for (const auto& [name, text] : documents) fresh.add(all, name, text);
    for (const SearchMode mode : {SearchMode::dense, SearchMode::multi, SearchMode::hybrid}) {
      const SearchQuery query = {.question = "one of them", .top_k = 20, .mode = mode};
      const auto wanted = fresh.query(all, query), found = index.query(all, query);
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(to_json(found[i]), to_json(wanted[i]));
      }
    }
  };
  for (const char* text : {"she had one of them", "it was his", "one of them had more", "no"}) {
    documents.emplace_back("text " + std::to_string(documents.size()), text);
    index.add(all, documents.back().first, text);
    expect_alike();
  }
  index.remove("text 1");
  documents.erase(documents.begin() + 1);
  expect_alike();
  // In the place of another, behind all.
  index.add(all, "text 0", "they were all there");
  documents.erase(documents.begin());
  documents.emplace_back("text 0", "they were all there");
  expect_alike();
}

/// Without a condition only the best passages by words are looked at.
TEST(SearchIndex, AConditionThatAllMeetChangesNoHits) {
  SearchIndex index(embedder(), with_passages(6));
  for (int document = 0; document < 300; ++document) {
    std::string text = document % 3 == 0   ? "the dog "
                       : document % 7 == 0 ? "a cat "
                                           : "dogs, a cat ";
    for (int word = 0; word < document % 5; ++word) text += "and ";
    std::vector<CharacterSpan> spans = {{0, std::ssize(text)}};
    // Overlapping ones are not shown together.
    if (document % 2 == 0) spans.push_back({0, 3});
    index.put(std::to_string(document), text, passages_of(spans, index.vector_size()));
  }
  for (const char* question : {"dog", "dog and the cat", "cat and", "\"the dog\" cat", "none"}) {
    for (const std::int64_t top_k : {1, 9, 140, 1000}) {
      SearchQuery query = {.question = question, .top_k = top_k, .mode = SearchMode::lexical};
      const auto found = index.query(query);
      query.within = {"."};
      const auto wanted = index.query(query);
      ASSERT_EQ(found.size(), wanted.size()) << question;
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(to_json(found[i]), to_json(wanted[i])) << question;
      }
    }
  }
}

/// Vectors of circles: passage i has the angle angles[i].
Embedding angles(const std::vector<double>& angles) {
  Embedding passages;
  for (const double angle : angles) {
    passages.spans.push_back({10 * passages.rows, 10 * passages.rows + 9});
    ++passages.rows;
    // Their lengths do not matter.
    const double length = 1 + static_cast<double>(passages.rows);
    passages.values.push_back(static_cast<float>(length * std::cos(angle)));
    passages.values.push_back(static_cast<float>(length * std::sin(angle)));
  }
  return passages;
}

/// Opens an index of a file and asks it.
std::string error_of_search(const Embedder& asked, const std::string& file) {
  return error_of([&] {
    SearchQuery query;
    query.question = "one of them";
    for (const SearchMode mode : {SearchMode::hybrid, SearchMode::multi}) {
      query.mode = mode;
      if (mode == SearchMode::multi && !asked.kinds().multi) continue;
      SearchIndex::open(file, asked).query(asked, query);
    }
    EXPECT_EQ(SearchIndex::open(file).documents(), 1);
  });
}

TEST(SearchIndex, SettingsThatAreNoneAreDamage) {
  const TemporaryFolder folder;
  const std::string whole = folder.path() / "whole", file = folder.path() / "damaged";
  SearchIndex::edit(whole, embedder(), with_passages(8)).add(embedder(), "story", kStory);
  EXPECT_EQ(error_of_search(embedder(), whole), "");
  std::size_t refused = 0;
  const index::PassageStore made(whole, index::Access::read);
  for (const auto& [name, value] : made.settings()) {
    for (const std::string wrong : {"NULL", "'x'", "'-1'", "'0'", "'99999999999999999999'",
                                    "'9999999999999999'", "''", "x'ff'"}) {
      SCOPED_TRACE(name + " " + wrong);
      std::filesystem::copy_file(whole, file, std::filesystem::copy_options::overwrite_existing);
      index::Database(file, index::Access::write)
          .run(wrong == "NULL"
                   ? fmt::format("DELETE FROM settings WHERE name = '{}'", name).c_str()
                   : fmt::format("UPDATE settings SET value = {} WHERE name = '{}'", wrong, name)
                         .c_str());
      const std::string error = error_of_search(embedder(), file);
      if (error.empty()) continue;
      ++refused;
      EXPECT_TRUE(error.starts_with(file)) << error;
      EXPECT_TRUE(error.find("anew") != std::string::npos ||
                  error.find("ask with") != std::string::npos)
          << error;
    }
  }
  EXPECT_GT(refused, 40u);
}

TEST(SearchIndex, DocumentsWithoutVectorsOfTheIndexAreRefused) {
  const Embedder multi =
      Embedder::load((fixtures_folder() / "vectors_colbert").string(), {.threads = 2});
  SearchIndex index(multi, with_mode(with_passages(8), SearchMode::multi, multi));
  index.add(multi, "story", kStory);
  const Embedding dense = passages_of({{0, 3}}, 16);
  expect_error(error_of([&] { index.put("other", "they", dense); }), {"other", "multi vectors"});
  index.put("nothing", "", passages_of({}, 16));
  SearchQuery query;
  query.question = "one of them";
  query.mode = SearchMode::multi;
  EXPECT_EQ(index.query(multi, query).size(), 3u);
}

TEST(SearchIndex, WrongPassagesLeaveNoIndex) {
  const TemporaryFolder folder;
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1} << 50}) {
    SearchOptions tokens = with_passages(wrong), overlap = with_passages(8);
    overlap.passages.overlap_tokens = wrong;
    const std::string file = folder.path() / "index";
    const auto make = [&](const SearchOptions& options) {
      return error_of([&] { SearchIndex::edit(file, embedder(), options); });
    };
    expect_error(make(tokens), {"passage tokens"});
    expect_error(make(overlap), {"overlap tokens"});
    EXPECT_EQ(make(with_passages(8)), "");
    std::filesystem::remove(file);
  }
}

TEST(SearchIndex, VectorsOfTokensThatAreMissingAreDamage) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  const Embedder multi =
      Embedder::load((fixtures_folder() / "vectors_colbert").string(), {.threads = 2});
  const SearchOptions options = with_mode(with_passages(8), SearchMode::multi, multi);
  SearchIndex::edit(file, multi, options).add(multi, "story", kStory);
  EXPECT_EQ(error_of_search(multi, file), "");
  index::Database(file, index::Access::write).run("DELETE FROM token_codes WHERE passage = 2");
  expect_error(error_of_search(multi, file), {file, "damaged", "anew"});
}

TEST(SearchCompare, ATextIsLikeItself) {
  SearchIndex index(embedder(), with_passages(6));
  index.add(embedder(), "a", kStory);
  const DocumentComparison found = index.compare("a", "a");
  EXPECT_NEAR(found.score, 1, 1e-5);
  EXPECT_TRUE(found.only_a.empty());
  EXPECT_TRUE(found.only_b.empty());
  ASSERT_EQ(std::ssize(found.pairs), index.passages());
  for (const PassagePair& pair : found.pairs) {
    EXPECT_EQ(pair.a, pair.b);
    EXPECT_NEAR(pair.score, 1, 1e-5);
    EXPECT_LE(pair.score, 1);
  }
}

TEST(SearchCompare, AShiftedCopyHasItsPassagesAtOtherPlaces) {
  SearchIndex index(embedder(), with_passages(6));
  const std::string beginning = "She went home.\n\n";
  const std::string text = "It was not what they said. One of them had more than the other.";
  index.add(embedder(), "a", text);
  index.add(embedder(), "b", beginning + text);
  const DocumentComparison found = index.compare("a", "b");
  const auto shift = std::ssize(beginning);
  std::size_t shifted = 0;
  for (const PassagePair& pair : found.pairs) {
    shifted += pair.b.begin == pair.a.begin + shift && pair.b.end == pair.a.end + shift ? 1u : 0u;
  }
  EXPECT_EQ(shifted, static_cast<std::size_t>(index.document("a").value().passages));
}

TEST(SearchCompare, PartnersAreTheNearestOnes) {
  // More rows than one product has.
  std::vector<double> one, other;
  for (int i = 0; i < 700; ++i) one.push_back(0.001 * i);
  for (int i = 0; i < 600; ++i) other.push_back(0.001 * (599 - i) + 0.0002);
  const DocumentComparison found = compare_passages(angles(one), angles(other));
  std::size_t exact = 0;
  for (const PassagePair& pair : found.pairs) {
    const auto i = pair.a.begin / 10, j = pair.b.begin / 10;
    EXPECT_NEAR(
        pair.score,
        std::cos(0.001 * static_cast<double>(i) - 0.001 * static_cast<double>(599 - j) - 0.0002),
        1e-5);
    exact += i + j == 599 ? 1u : 0u;
  }
  // In fp32 some neighbours are as near.
  EXPECT_GE(exact, 300u);
  EXPECT_TRUE(found.only_b.empty());
}

TEST(SearchCompare, WhatIsUnlikeAllIsInOneAlone) {
  std::vector<double> one(20, 0.0), other(20, 0.1);
  one[7] = 2;
  other[0] = other[19] = -2;
  const DocumentComparison found = compare_passages(angles(one), angles(other));
  EXPECT_EQ(found.only_a, (std::vector<CharacterSpan>{{70, 79}}));
  EXPECT_EQ(found.only_b, (std::vector<CharacterSpan>{{0, 9}, {190, 199}}));
  for (const PassagePair& pair : found.pairs) {
    EXPECT_NE(pair.a, (CharacterSpan{70, 79}));
    EXPECT_NEAR(pair.score, std::cos(0.1), 1e-5);
  }
}

TEST(SearchCompare, DocumentsWithoutPassages) {
  const DocumentComparison found = compare_passages(angles({}), angles({1, 2}));
  EXPECT_EQ(found.score, 0);
  EXPECT_TRUE(found.pairs.empty());
  EXPECT_EQ(found.only_b.size(), 2u);
  EXPECT_TRUE(std::isfinite(compare_passages(angles({1}), angles({1})).score));
  Embedding wide = angles({1});
  wide.values.push_back(1);
  expect_error(error_of([&] { compare_passages(angles({1}), wide); }), {"one size", "2 and 3"});
}

TEST(SearchCompare, ItsJsonHasTheKeysOfTheServer) {
  const auto json = nlohmann::json::parse(to_json(
      {.score = 0.5f, .pairs = {{{0, 3}, {4, 9}, 0.25f}}, .only_a = {{3, 4}}, .only_b = {}}));
  EXPECT_EQ(json, nlohmann::json::parse(R"({"score": 0.5, "pairs": [{"a": {"start": 0, "end": 3},
      "b": {"start": 4, "end": 9}, "score": 0.25}], "only_a": [{"start": 3, "end": 4}],
      "only_b": []})"));
}

}  // namespace
}  // namespace longformer::search_test
