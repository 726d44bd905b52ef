// Plain text for language models.
#pragma once

#include <functional>
#include <string>

#include "engine/frame/data_file.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// Calls `take` with every document of a file: the file itself ("text", the default, which also
/// reads PDF, Word, OpenDocument, EPUB, Markdown and HTML), each of its lines ("lines"), or the
/// text field of each object ("jsonl", "json", also by the ending .jsonl). A folder stands for the
/// documents in it and below. Throws Error that names file and line.
void read_texts(const std::string& path, const DataOptions& options, DataReport& report,
                const std::function<void(const std::string&)>& take);

}  // namespace longformer::tasks
