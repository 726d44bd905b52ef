// Files of predictions in the form that the authors of several tasks published: one JSON object of
// answers by the ids of questions.
#pragma once

#include <map>
#include <string>

#include "engine/frame/data_file.h"

namespace longformer::engine {

using AnswersById = std::map<std::string, std::string>;

/// The object of answers in a JSON value; `path` is for messages. Throws Error for other values.
AnswersById answers_by_id(const Json& value, const std::string& path);

/// Reads a file {"ID": "ANSWER", …}. Throws Error that names it.
AnswersById read_answers(const std::string& path);

/// The text of such a file.
std::string answers_text(const AnswersById& answers);

}  // namespace longformer::engine
