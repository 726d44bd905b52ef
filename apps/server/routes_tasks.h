// Tasks over one text, for the routes that give them in one form or another.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api.h"
#include "inputs.h"
#include "offsets.h"

namespace longformer::server {

/// Throws Failure for the outcome of a text that could not be read.
[[noreturn]] void refuse_outcome(const std::string& error, const std::vector<Remedy>& remedies,
                                 std::string_view name);
AnswerOutcome answered(const Api& api, ApiCall& call, const QuestionAnswerer& answerer,
                       const Question& question, const Json& where);
/// The entities of one text.
TagOutcome tagged(const Api& api, ApiCall& call, const Tagger& tagger, const std::string& text,
                  const Json& where);
/// [{"entity_group", "score", "word", "start", "end"}, …]; of single tokens "entity" and "index".
std::string entities_json(const TagOutcome& found, const Offsets& offsets, bool are_tokens);
bool tags_tokens(const Json& where);
/// The form of the pipeline of `transformers`: a list of candidates for one mask, of such lists for
/// several.
std::string filled_json(const Api& api, ApiCall& call, const MaskFiller& filler,
                        const std::string& text, const Json& where);
/// The request of a text, with the options of `where`.
GenerationRequest writing_request(const Api& api, const ApiCall& call, const Json& where);
WrittenDocument written(ApiCall& call, const TextGenerator& writer, const std::string& text,
                        const GenerationRequest& request, const GenerationCallback& callback);

}  // namespace longformer::server
