#include <span>
#include <string>
#include <vector>

#include "longformer/report.h"
#include "longformer/search.h"

namespace longformer {

std::string to_json(const SearchHit& hit) {
  JsonLine json;
  json.add("file", hit.file).add("begin", hit.span.begin).add("end", hit.span.end);
  if (hit.place) json.add_json("place", to_json(*hit.place));
  json.add("score", hit.score);
  if (hit.similarity) json.add("similarity", *hit.similarity);
  if (hit.words) json.add("words", *hit.words);
  if (hit.sparse) json.add("sparse", *hit.sparse);
  if (hit.multi) json.add("multi", *hit.multi);
  json.add("text", hit.text).add("matched", std::span<const CharacterSpan>(hit.matched));
  if (!hit.metadata.empty()) json.add_json("metadata", hit.metadata);
  return json.object();
}

std::string to_json(const IndexedDocument& document) {
  JsonLine json;
  json.add("file", document.name).add("passages", document.passages);
  json.add("characters", document.characters).add("hash", document.hash);
  json.add("time", document.time);
  if (!document.metadata.empty()) json.add_json("metadata", document.metadata);
  return json.object();
}

namespace {

JsonLine json_of(const CharacterSpan& span) {
  JsonLine json;
  json.add("start", span.begin).add("end", span.end);
  return json;
}

std::vector<JsonLine> json_of(const std::vector<CharacterSpan>& spans) {
  std::vector<JsonLine> all;
  for (const CharacterSpan& span : spans) all.push_back(json_of(span));
  return all;
}

}  // namespace

std::string to_json(const DocumentComparison& comparison) {
  std::vector<JsonLine> pairs;
  for (const PassagePair& pair : comparison.pairs) {
    JsonLine& json = pairs.emplace_back();
    json.add_json("a", json_of(pair.a).object()).add_json("b", json_of(pair.b).object());
    json.add("score", pair.score);
  }
  JsonLine json;
  json.add("score", comparison.score).add_objects("pairs", pairs);
  json.add_objects("only_a", json_of(comparison.only_a));
  return json.add_objects("only_b", json_of(comparison.only_b)).object();
}

}  // namespace longformer
