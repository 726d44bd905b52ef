// Classification data in the form in which it was published as folders and XML.
#include <algorithm>
#include <filesystem>
#include <pugixml.hpp>
#include <unordered_map>

#include "core/words.h"
#include "formats/json.h"
#include "tasks/classification/classification_data.h"
#include "text/charset.h"
#include "text/unicode.h"

namespace longformer::tasks {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

pugi::xml_document parse_xml(const std::string& path, const DataOptions& options) {
  // XML in UTF-8 may declare another encoding, which its own reader knows.
  const bool declares = options.encoding.name == TextEncoding().name;
  const std::string text = declares ? formats::read_file(path) : read_whole_text(path, options);
  pugi::xml_document document;
  // Spaces between tags separate words.
  const auto result =
      document.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_ws_pcdata,
                           declares ? pugi::encoding_auto : pugi::encoding_utf8);
  if (!result) {
    const auto before = std::min(static_cast<std::size_t>(result.offset), text.size());
    const auto line =
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(before), '\n');
    fail("{}:{}: expected XML, found: {}", path, line + 1, result.description());
  }
  return document;
}

/// Appends the text of a node; a paragraph ends with a line break.
void append_text(const pugi::xml_node& node, std::string& text) {
  for (const pugi::xml_node& child : node.children()) {
    if (child.type() == pugi::node_pcdata || child.type() == pugi::node_cdata) {
      text += child.value();
    } else {
      append_text(child, text);
      if (std::string_view(child.name()) == "p") text += '\n';
    }
  }
}

/// Runs of spaces as one, none at the ends of lines, no empty lines.
std::string tidied(const std::string& text) {
  std::string result;
  for (const char character : text) {
    const bool space = character == ' ' || character == '\t' || character == '\r';
    const bool at_line_start = result.empty() || result.back() == '\n';
    if (character == '\n') {
      if (result.ends_with(' ')) result.pop_back();
      if (!result.empty() && result.back() != '\n') result += '\n';
    } else if (!space) {
      result += character;
    } else if (!at_line_start && result.back() != ' ') {
      result += ' ';
    }
  }
  while (result.ends_with('\n') || result.ends_with(' ')) result.pop_back();
  return result;
}

struct HyperpartisanFiles {
  std::string articles, truth;
};

HyperpartisanFiles hyperpartisan_files(const std::string& path) {
  fs::path articles = path;
  if (fs::is_directory(path)) {
    articles.clear();
    for (const fs::path& entry : sorted_entries(path)) {
      const std::string name = entry.filename().string();
      if (!name.starts_with("articles-") || !name.ends_with(".xml")) continue;
      require(articles.empty(), "{}: expected one file articles-*.xml, found {} and {}: name one",
              path, articles.filename().string(), name);
      articles = entry;
    }
    require(!articles.empty(), "{}: expected a file articles-*.xml, found none", path);
  }
  const std::string name = articles.filename().string();
  require(name.starts_with("articles-"),
          "{}: expected a name articles-*.xml, beside which ground-truth-*.xml has the labels",
          path);
  const fs::path truth = articles.parent_path() /
                         ("ground-truth-" + name.substr(std::string_view("articles-").size()));
  return {articles.string(), truth.string()};
}

/// The path of a file from a folder, without the ending .txt.
std::string name_below(const fs::path& folder, const std::string& file) {
  fs::path name = fs::path(file).lexically_relative(folder);
  if (name.extension() == ".txt") name.replace_extension();
  const std::string text = name.generic_string();
  return text::is_valid_utf8(text) ? text : text::utf8_text(text, "utf-8").text;
}

}  // namespace

std::vector<UnresolvedDocument> read_class_folders(const std::string& path,
                                                   const DataOptions& options, DataReport& report) {
  std::vector<UnresolvedDocument> documents;
  std::vector<std::string> beside;
  report.file = path;
  for (const fs::path& folder : sorted_entries(path)) {
    const std::string label = folder.filename().string();
    // macOS leaves the second kind in archives.
    if (label.starts_with('.') || label == "__MACOSX" || label == "unsup") continue;
    if (!fs::is_directory(folder)) {
      beside.push_back(folder.string());
      continue;
    }
    require(text::is_valid_utf8(label), FileName{path},
            "expected names of classes in UTF-8, found {}", formats::quote(label));
    require(label != "train" && label != "test",
            "{}: expected a folder for each class, found {}: name {} itself", path, label,
            folder.string());
    for (const std::string& file : document_files_of(folder.string(), report)) {
      read_record(file, options, report, [&] {
        UnresolvedDocument document;
        document.place = file;
        document.origin.id = label + "/" + name_below(folder, file);
        document.text = read_one_document(file, options);
        document.labels = {label};
        documents.push_back(std::move(document));
      });
    }
  }
  if (!documents.empty() && !beside.empty()) {
    report.notes.push_back(fmt::format("left out {} beside the folders of classes: {}{}",
                                       counted(std::ssize(beside), "file"), beside.front(),
                                       beside.size() > 1 ? ", …" : ""));
  }
  require(!documents.empty() || report.skipped > 0,
          "{}: expected a folder of documents for each class, found none", path);
  return documents;
}

std::vector<UnresolvedDocument> read_hyperpartisan(const std::string& path,
                                                   const DataOptions& options, DataReport& report) {
  const HyperpartisanFiles files = hyperpartisan_files(path);
  const pugi::xml_document truth = parse_xml(files.truth, options);
  std::unordered_map<std::string, std::string> labels;
  for (const pugi::xml_node& article : truth.child("articles").children("article")) {
    labels[article.attribute("id").value()] = article.attribute("hyperpartisan").value();
  }
  const pugi::xml_document articles = parse_xml(files.articles, options);
  std::vector<UnresolvedDocument> documents;
  for (const pugi::xml_node& article : articles.child("articles").children("article")) {
    UnresolvedDocument document;
    document.origin.id = article.attribute("id").value();
    document.place = fmt::format("{}: article {}", files.articles, document.origin.id);
    read_record(document.place, options, report, [&] {
      const auto label = labels.find(document.origin.id);
      require(label != labels.end() && (label->second == "true" || label->second == "false"),
              "expected hyperpartisan=\"true\" or \"false\" for it in {}, found {}", files.truth,
              label == labels.end() ? "nothing" : formats::quote(label->second));
      document.labels = {label->second};
      std::string text = std::string(article.attribute("title").value()) + "\n";
      append_text(article, text);
      document.text = tidied(text);
      documents.push_back(std::move(document));
    });
  }
  return documents;
}

}  // namespace longformer::tasks
