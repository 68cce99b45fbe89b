#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/made_files.h"
#include "data/made_images.h"
#include "data/made_mat.h"
#include "data/mat_file.h"
#include "smartmine/data/cars196.h"
#include "smartmine/data/cub200.h"
#include "smartmine/data/folder.h"
#include "smartmine/data/omniglot.h"

namespace smartmine {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using namespace test;     // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// Saves with all folders on the way; what is in it is not looked at by the loaders.
void put(const fs::path& path, const std::string& bytes = "\xff\xd8\xff") {
  fs::create_directories(path.parent_path());
  save(path, bytes);
}

std::vector<std::string> ids(const Dataset& dataset) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < dataset.size(); ++i) out.push_back(dataset.id(i));
  return out;
}

// ---- CUB-200-2011

/// Four classes whose numbers are against the order of their folders' names; Windows line ends in one file.
struct Cub {
  TemporaryFolder folder;
  Cub() {
    for (const char* image : {"dove/1.jpg", "crow/2.jpg", "bat/3.jpg", "auk/4.jpg", "auk/5.jpg"})
      put(folder / (std::string("images/") + image));
    put(folder / "classes.txt", "1 dove\r\n2 crow\r\n3 bat\r\n4 auk\r\n");
    put(folder / "images.txt", "1 dove/1.jpg\n2 crow/2.jpg\n3 bat/3.jpg\n5 auk/5.jpg\n4 auk/4.jpg\n");
    put(folder / "image_class_labels.txt", "1 1\n2 2\n3 3\n4 4\n5 4\n");
  }
  std::string refusal() const {
    return io_error([&] { load_cub200(folder.path()); });
  }
};

TEST(Cub200, ClassesAreOrderedByTheLabelFilesNotByFolders) {
  const Cub cub;
  const DataSplits splits = load_cub200(cub.folder.path());
  EXPECT_THAT(ids(splits.train), ElementsAre("dove/1.jpg", "crow/2.jpg"));
  EXPECT_THAT(ids(splits.test), ElementsAre("bat/3.jpg", "auk/5.jpg", "auk/4.jpg"));
  EXPECT_THAT(splits.train.labels(), ElementsAre(1, 2));
  EXPECT_THAT(splits.test.labels(), ElementsAre(3, 4, 4));
  EXPECT_EQ(splits.test.class_name(4), "auk");
  EXPECT_EQ(splits.test.single_image_classes(), 1U);
  EXPECT_TRUE(fs::exists(splits.train.path(0)));
  EXPECT_THAT(splits.train.notes(), HasSubstr("This copy has 4 classes; the original has 200."));
  fs::create_directories(cub.folder / "outer");
  for (const char* name : {"images", "images.txt", "classes.txt", "image_class_labels.txt"}) {
    fs::create_directories(cub.folder / "outer/CUB_200_2011");
    fs::rename(cub.folder / name, cub.folder / (std::string("outer/CUB_200_2011/") + name));
  }
  EXPECT_EQ(load_cub200(cub.folder / "outer").test.size(), 3U);
}

TEST(Cub200, NamesTheLineWhereTheLabelFilesDisagree) {
  const auto refusal = [](const char* file, const std::string& text) {
    const Cub cub;
    save(cub.folder / file, text);
    return cub.refusal();
  };
  EXPECT_THAT(refusal("image_class_labels.txt", "1 1\n2 2\n3 3\n4 4\n"), HasSubstr("images.txt: line 4: image 5 has no label"));
  EXPECT_THAT(refusal("image_class_labels.txt", "1 1\n2 2\n3 3\n4 4\n5 9\n"),
              HasSubstr("image_class_labels.txt: line 5: class 9 is not in classes.txt"));
  EXPECT_THAT(refusal("image_class_labels.txt", "1 1\n2 2\n3 3\n4 4\n5 4\n6 4\n"),
              HasSubstr("image_class_labels.txt: line 6: image 6 is not in images.txt"));
  EXPECT_THAT(refusal("image_class_labels.txt", "1 1\n2 2\n3 3\n4 4\n5 4\n3 3\n"),
              HasSubstr("image_class_labels.txt: line 6: image 3 is already in line 3"));
  EXPECT_THAT(refusal("image_class_labels.txt", "1 1\n2 x\n3 3\n4 4\n5 4\n"),
              HasSubstr("image_class_labels.txt: line 2: 'x' is not a class number"));
  EXPECT_THAT(refusal("image_class_labels.txt", "1 1\n2 1\n3 3\n4 4\n5 4\n"),
              HasSubstr("image_class_labels.txt: line 2: image 2 is labelled 1 'dove' but lies in the folder 'crow'"));
  EXPECT_THAT(refusal("images.txt", "1 dove/1.jpg\nnonsense\n"),
              HasSubstr("images.txt: line 2: expected a number and an image's path, found 'nonsense'"));
  EXPECT_THAT(refusal("images.txt", "1 dove/1.jpg\n2 crow/2.jpg\n1 bat/3.jpg\n"),
              HasSubstr("images.txt: line 3: image 1 is already in line 1"));
  EXPECT_THAT(refusal("images.txt", "1 dove/1.jpg\n2 dove/1.jpg\n"), HasSubstr("images.txt: line 2: 'dove/1.jpg' is already in line 1"));
  EXPECT_THAT(refusal("classes.txt", ""), HasSubstr("classes.txt: the file has no lines"));
  EXPECT_THAT(refusal("classes.txt", "1 dove\n"), HasSubstr("classes.txt: has 1 classes; at least 4 are needed"));
}

TEST(Cub200, NamesWhatDisagreesWithTheFolder) {
  const Cub missing;
  fs::remove(missing.folder / "images/bat/3.jpg");
  EXPECT_THAT(missing.refusal(),
              AllOf(HasSubstr("images.txt: line 3: 'bat/3.jpg' is not in the folder images"), HasSubstr("1 of 5 images")));
  const Cub surplus;
  put(surplus.folder / "images/auk/unknown.jpg");
  put(surplus.folder / "images/auk/._hidden.jpg");
  EXPECT_THAT(surplus.refusal(), HasSubstr("images.txt: does not list 'auk/unknown.jpg'"));
  const Cub none;
  fs::remove_all(none.folder / "images");
  EXPECT_THAT(none.refusal(), HasSubstr("images: there is no such folder"));
  const TemporaryFolder empty;
  EXPECT_THAT(io_error([&] { load_cub200(empty.path()); }), HasSubstr("there is no images.txt in this folder"));
  EXPECT_THAT(io_error([&] { load_cub200(empty / "nowhere"); }), HasSubstr("there is no such folder"));
  const Cub unlabelled;
  fs::remove(unlabelled.folder / "image_class_labels.txt");
  EXPECT_THAT(unlabelled.refusal(), AllOf(HasSubstr("image_class_labels.txt: "), HasSubstr("No such file")));
}

// ---- Omniglot

TEST(Omniglot, BackgroundTrainsAndEvaluationTests) {
  for (const char* below : {"", "python/", "omniglot-py/"}) {
    const TemporaryFolder folder;
    const auto image = [&](const std::string& name) { put(folder / (below + name)); };
    image("images_background/Greek/character02/b.png");
    image("images_background/Greek/character01/a.png");
    image("images_background/Greek/character01/c.png");
    image("images_background/Braille/character01/a.png");
    image("images_evaluation/Oriya/character01/a.png");
    image("images_evaluation/Oriya/character02/a.png");
    const DataSplits splits = load_omniglot(folder.path());
    EXPECT_THAT(splits.train.labels(), ElementsAre(0, 1, 1, 2));
    EXPECT_THAT(splits.test.labels(), ElementsAre(3, 4));
    EXPECT_EQ(splits.train.class_name(0), "Braille/character01");
    EXPECT_EQ(splits.train.class_name(2), "Greek/character02");
    EXPECT_TRUE(fs::exists(splits.test.path(1)));
  }
}

TEST(Omniglot, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_THAT(io_error([&] { load_omniglot(folder.path()); }), HasSubstr("there is no images_background in this folder"));
  put(folder / "images_background/Greek/character01/a.png");
  EXPECT_THAT(io_error([&] { load_omniglot(folder.path()); }), HasSubstr("images_background: found 1 characters"));
  put(folder / "images_background/Greek/character02/a.png");
  EXPECT_THAT(io_error([&] { load_omniglot(folder.path()); }), HasSubstr("images_evaluation: there is no such folder"));
  fs::create_directories(folder / "images_background/Greek/character03");
  EXPECT_THAT(io_error([&] { load_omniglot(folder.path()); }), HasSubstr("Greek/character03: there is no image in this folder"));
}

// ---- Folders and tables

TEST(Folder, OneFolderIsOneClassAndTheFirstHalfTrains) {
  const TemporaryFolder folder;
  for (const char* image : {"cat/2.JPG", "cat/1.png", "ant/x.jpeg", "dog/deep/er/y.jpg", "bee/z.png", "eel/only"}) put(folder / image);
  put(folder / "cat/notes.txt", "not an image");
  put(folder / "cat/.hidden.png");
  put(folder / ".git/x.png");
  const DataSplits splits = load_folder(folder.path());
  EXPECT_THAT(ids(splits.train), ElementsAre("ant/x.jpeg", "bee/z.png", "cat/1.png", "cat/2.JPG"));
  EXPECT_THAT(ids(splits.test), ElementsAre("dog/deep/er/y.jpg", "eel/only"));  // known by its first bytes
  EXPECT_THAT(splits.test.labels(), ElementsAre(3, 4));
  EXPECT_EQ(splits.test.class_name(3), "dog");
  EXPECT_EQ(splits.train.single_image_classes(), 2U);
  EXPECT_THAT(splits.train.notes(), AllOf(HasSubstr("the first 3 train, the other 2 test"), HasSubstr("1 files that are no images")));
}

TEST(Folder, NamesThatAreNumbersAreLabelsInTheirOrder) {
  const TemporaryFolder folder;
  for (const char* image : {"10/a.png", "9/a.png", "100/a.png", "-3/a.png"}) put(folder / image);
  const DataSplits splits = load_folder(folder.path());
  EXPECT_THAT(splits.train.labels(), ::testing::UnorderedElementsAre(-3, 9));
  EXPECT_THAT(splits.test.labels(), ::testing::UnorderedElementsAre(10, 100));
  fs::rename(folder / "9", folder / "09");  // not a number one would write
  EXPECT_EQ(load_folder(folder.path()).train.class_name(0), "-3");
}

TEST(Folder, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const auto refusal = [&] { return io_error([&] { load_folder(folder.path()); }); };
  EXPECT_THAT(io_error([&] { load_folder(folder / "none"); }), HasSubstr("there is no such folder"));
  EXPECT_THAT(refusal(), HasSubstr("there are no folders in this folder"));
  for (const char* image : {"a/1.png", "b/1.png", "c/1.png"}) put(folder / image);
  EXPECT_THAT(refusal(), HasSubstr("has 3 classes; training and test halves of whole classes take at least 4"));
  fs::create_directories(folder / "d");
  EXPECT_THAT(refusal(), HasSubstr("d: there is no image in this class's folder"));
}

struct Table {
  TemporaryFolder folder;
  Table() {
    for (const char* image : {"1.png", "2.png", "3.png", "4.png", "sub, folder/5.png"}) put(folder / image);
  }
  DataSplits load(const std::string& text) const {
    save(folder / "list.csv", text);
    return load_folder(folder.path());
  }
  std::string refusal(const std::string& text) const {
    return io_error([&] { load(text); });
  }
};

TEST(Folder, ATableGivesLabelsAndSplits) {
  const Table table;
  const DataSplits splits = table.load(
      "split,path,extra,label\r\ntrain,1.png,,cat\r\ntrain,2.png,,ant\r\ntest,\"sub, "
      "folder/5.png\",,cat\r\nvalidation,3.png,,bee\r\ntest,4.png,,\"a \"\"b\"\"\"\r\n");
  EXPECT_THAT(ids(splits.train), ElementsAre("1.png", "2.png"));
  EXPECT_THAT(ids(splits.test), ElementsAre("sub, folder/5.png", "4.png"));
  ASSERT_TRUE(splits.validation);
  EXPECT_THAT(ids(*splits.validation), ElementsAre("3.png"));
  EXPECT_THAT(splits.train.labels(), ElementsAre(3, 1));  // a "b", ant, bee, cat
  EXPECT_EQ(splits.test.class_name(0), "a \"b\"");
  EXPECT_TRUE(fs::exists(splits.test.path(0)));
  EXPECT_EQ(load_folder(table.folder / "list.csv").train.size(), 2U);
}

TEST(Folder, ATableWithoutSplitsIsHalvedByClass) {
  const Table table;
  const DataSplits splits = table.load("path,label\n1.png,30\n2.png,4\n3.png,200\n4.png,5\n");
  EXPECT_THAT(splits.train.labels(), ElementsAre(4, 5));
  EXPECT_THAT(splits.test.labels(), ElementsAre(30, 200));
  EXPECT_FALSE(splits.validation);
}

TEST(Folder, NamesTheLineOfATableThatIsWrong) {
  const Table table;
  EXPECT_THAT(table.refusal("1.png,a\n2.png,b\n"), HasSubstr("list.csv: line 1: the header must name the columns path and label"));
  EXPECT_THAT(table.refusal("path,label\n"), HasSubstr("list.csv: has a header and no rows"));
  EXPECT_THAT(table.refusal("path,label\n1.png,a\n9.png,b\n"), HasSubstr("list.csv: line 3: there is no file '9.png'"));
  EXPECT_THAT(table.refusal("path,label\n1.png,a\nsub, folder,b\n"), HasSubstr("line 3: has 3 fields"));
  EXPECT_THAT(table.refusal("path,label\n1.png,a\n\"sub, folder\",b\n"), HasSubstr("line 3: 'sub, folder' is a folder"));
  EXPECT_THAT(table.refusal("path,label\n1.png,a\n./1.png,b\n"), HasSubstr("line 3: './1.png' is already in line 2"));
  EXPECT_THAT(table.refusal("path,label\n1.png,\n"), HasSubstr("line 2: '1.png' has no label"));
  EXPECT_THAT(table.refusal("path,label,split\n1.png,a,train\n2.png,b,trian\n"), HasSubstr("line 3: the split is 'trian'"));
  EXPECT_THAT(table.refusal("path,label,split\n1.png,a,train\n2.png,b,train\n"), HasSubstr("no row has the split test"));
  EXPECT_THAT(table.refusal("path,label,split\n1.png,a,train\n2.png,b,test\n"), HasSubstr("the training rows have one label only"));
  save(table.folder / "other.csv", "path,label\n");
  EXPECT_THAT(table.refusal("path,label\n"), HasSubstr("holds 2 .csv files"));
}

TEST(Folder, ListsImagesWithoutLabels) {
  const TemporaryFolder folder;
  EXPECT_THAT(io_error([&] { list_images(folder.path()); }), HasSubstr("there is no image in this folder"));
  for (const char* image : {"b.png", "a/c.jpg", "a/d"}) put(folder / image);
  put(folder / "readme.md", "text");
  const Dataset images = list_images(folder.path());
  EXPECT_THAT(ids(images), ElementsAre("a/c.jpg", "a/d", "b.png"));
  EXPECT_THAT(images.labels(), ElementsAre(0, 0, 0));
}

// ---- Cars196

TEST(Cars196, ATableGivesTheClasses) {
  const TemporaryFolder folder;
  for (const char* image : {"1.jpg", "2.jpg", "3.jpg", "4.jpg"}) put(folder / (std::string("car_ims/") + image));
  save(folder / "cars_annos.csv",
       "path,label,class_name\ncar_ims/1.jpg,4,BMW\ncar_ims/2.jpg,1,Audi\ncar_ims/3.jpg,3,VW\ncar_ims/4.jpg,2,Seat\n");
  const DataSplits splits = load_cars196(folder.path());
  EXPECT_THAT(splits.train.labels(), ElementsAre(1, 2));
  EXPECT_THAT(splits.test.labels(), ElementsAre(4, 3));
  EXPECT_EQ(splits.test.class_name(4), "BMW");
  const auto refusal = [&](const std::string& text) {
    save(folder / "cars_annos.csv", text);
    return io_error([&] { load_cars196(folder.path()); });
  };
  EXPECT_THAT(refusal("path,label\ncar_ims/1.jpg,x\n"), HasSubstr("cars_annos.csv: line 2: the label is 'x'"));
  EXPECT_THAT(refusal("path,label\ncar_ims/1.jpg,0\n"), HasSubstr("cars_annos.csv: line 2: the class is 0"));
  EXPECT_THAT(refusal("path,label\ncar_ims/9.jpg,1\n"), HasSubstr("cars_annos.csv: line 2: there is no image car_ims/9.jpg"));
  EXPECT_THAT(refusal("path,label\ncar_ims/1.jpg,1\ncar_ims/1.jpg,2\n"), HasSubstr("line 3: 'car_ims/1.jpg' is already in line 2"));
  EXPECT_THAT(refusal("path,label\ncar_ims/1.jpg,1\n"), HasSubstr("the annotations have 1 classes"));
  EXPECT_THAT(refusal("file\n1\n"), HasSubstr("line 1: the header must name"));
}

TEST(Cars196, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("there are no annotations in this folder or in devkit"));
  EXPECT_THAT(io_error([&] { load_cars196(folder / "none"); }), HasSubstr("there is no such folder"));
  save(folder / "cars_annos.mat", "this is no .mat file");
  EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("cars_annos.mat: "));
}

struct Annotation {
  std::string path;
  int label;  // 0: none
};

/// A .mat file as the data set's makers write them: struct array annotations, packed, and cell array class_names.
void save_mat(const fs::path& path, const std::string& path_field, const std::vector<Annotation>& annotations,
              const std::vector<std::string>& names) {
  std::string elements;
  if (!annotations.empty()) {
    std::vector<std::string> values;
    for (std::size_t i = 0; i < annotations.size(); ++i) {
      const int label = annotations[i].label;
      values.insert(values.end(), {mat_double(7), mat_text(annotations[i].path),
                                   label == 0   ? mat_nothing()
                                   : i % 2 == 0 ? mat_byte(static_cast<std::uint8_t>(label))
                                                : mat_double(label)});
    }
    elements += mat_packed(mat_struct("annotations", annotations.size(), {"bbox_x1", path_field, "class"}, values));
  }
  if (!names.empty()) {
    std::vector<std::string> cells;
    for (const std::string& name : names) cells.push_back(mat_text(name));
    elements += mat_cell("class_names", cells);
  }
  put(path, mat_file(elements));
}

TEST(Cars196, ReadsTheAnnotationsOfAllImages) {
  const TemporaryFolder folder;
  for (const char* image : {"1.jpg", "2.jpg", "3.jpg", "4.jpg"}) put(folder / (std::string("car_ims/") + image));
  save_mat(folder / "cars_annos.mat", "relative_im_path",
           {{"car_ims/1.jpg", 4}, {"car_ims/2.jpg", 1}, {"car_ims/3.jpg", 3}, {"car_ims/4.jpg", 2}}, {"Audi", "Seat", "VW", "BMW X"});
  const DataSplits splits = load_cars196(folder.path());
  EXPECT_THAT(ids(splits.train), ElementsAre("car_ims/2.jpg", "car_ims/4.jpg"));
  EXPECT_THAT(splits.test.labels(), ElementsAre(4, 3));
  EXPECT_EQ(splits.test.class_name(4), "BMW X");
  save_mat(folder / "cars_annos.mat", "relative_im_path", {{"car_ims/1.jpg", 4}, {"car_ims/2.jpg", 5}}, {"Audi", "Seat", "VW", "BMW X"});
  EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("names 4 classes, but an image is labelled 5"));
  save_mat(folder / "cars_annos.mat", "relative_im_path", {{"car_ims/9.jpg", 4}}, {});
  EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("cars_annos.mat: annotation 1: there is no image car_ims/9.jpg"));
  save_mat(folder / "cars_annos.mat", "relative_im_path", {{"car_ims/1.jpg", 1}, {"car_ims/2.jpg", 0}}, {});
  EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("cars_annos.mat: annotation 2: has no number 'class'"));
  save_mat(folder / "cars_annos.mat", "fname", {{"car_ims/1.jpg", 1}}, {});
  EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("annotation 1: has no text 'relative_im_path'"));
  save_mat(folder / "cars_annos.mat", "fname", {}, {"Audi"});
  EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("cars_annos.mat: has no struct array 'annotations'"));
}

TEST(Cars196, ReadsTheDevkit) {
  const TemporaryFolder folder;
  for (const char* image : {"cars_train/1.jpg", "cars_train/2.jpg", "cars_test/cars_test/1.jpg", "cars_test/cars_test/2.jpg"})
    put(folder / image);
  save_mat(folder / "devkit/cars_train_annos.mat", "fname", {{"1.jpg", 4}, {"2.jpg", 1}}, {});
  EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("cars_test_annos_withlabels.mat: is missing"));
  save_mat(folder / "cars_test_annos_withlabels.mat", "fname", {{"1.jpg", 2}, {"2.jpg", 3}}, {});
  EXPECT_EQ(load_cars196(folder.path()).train.class_name(1), "class 1");
  save_mat(folder / "devkit/cars_meta.mat", "", {}, {"Audi", "Seat", "VW", "BMW"});
  const DataSplits splits = load_cars196(folder.path());
  EXPECT_THAT(ids(splits.train), ElementsAre("cars_train/2.jpg", "cars_test/cars_test/1.jpg"));
  EXPECT_THAT(ids(splits.test), ElementsAre("cars_train/1.jpg", "cars_test/cars_test/2.jpg"));
  EXPECT_EQ(splits.train.class_name(1), "Audi");
}

TEST(Cars196, LeavesOutImagesThatAreKnownToBeMissingAndNoOthers) {
  const TemporaryFolder folder;
  for (const char* image : {"cars_train/1.jpg", "cars_train/2.jpg", "cars_test/2.jpg"}) put(folder / image);
  save_mat(folder / "cars_train_annos.mat", "fname", {{"1.jpg", 4}, {"2.jpg", 1}}, {});
  save_mat(folder / "cars_test_annos_withlabels.mat", "fname", {{"1.jpg", 2}, {"2.jpg", 3}}, {});
  EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("there is no image cars_test/1.jpg"));
  save(folder / "missing.txt", "cars_test/1.jpg\n");
  const DataSplits splits = load_cars196(folder.path());
  EXPECT_THAT(ids(splits.train), ElementsAre("cars_train/2.jpg"));
  EXPECT_THAT(splits.train.notes(), HasSubstr("1 images that missing.txt names are left out"));
  save(folder / "missing.txt", "cars_test/7.jpg\n");
  EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("there is no image cars_test/1.jpg"));
}

TEST(Cars196, CutMatFilesAreRefused) {
  const TemporaryFolder folder;
  put(folder / "1.jpg");
  save_mat(folder / "cars_annos.mat", "relative_im_path", {{"1.jpg", 4}}, {"a", "b", "c", "d"});
  const std::string whole = contents(folder / "cars_annos.mat");
  EXPECT_NO_THROW(load_cars196(folder.path()));
  for (std::size_t size = 0; size < 200; size += 8) {
    save(folder / "cars_annos.mat", whole.substr(0, size));
    EXPECT_THAT(io_error([&] { load_cars196(folder.path()); }), HasSubstr("cars_annos.mat: ")) << size;
  }
}

TEST(MatFile, ReadsWhatItKnowsAndPassesOverTheRest) {
  const auto bytes = [](const std::string& file) { return std::as_bytes(std::span(file)); };
  const std::string sparse = mat_array(5, 3, 3, "sparse", "");
  const std::string file = mat_file(sparse + mat_packed(mat_cell("names", {mat_text("Audi"), mat_nothing(), mat_double(2.5)})) +
                                    mat_array(4, 1, 4, "utf8", mat_element(16, "a\xc3\xa9 b")));
  const auto names = read_mat_variable(bytes(file), "names", "x.mat");
  ASSERT_TRUE(names);
  EXPECT_EQ(names->kind, MatValue::Kind::kCell);
  ASSERT_EQ(names->parts.size(), 3U);
  EXPECT_EQ(names->parts[0].text, "Audi");
  EXPECT_EQ(names->parts[1].kind, MatValue::Kind::kOther);
  EXPECT_EQ(names->parts[2].number, 2.5);
  EXPECT_EQ(read_mat_variable(bytes(file), "utf8", "x.mat")->text, "a\xc3\xa9 b");
  // Letters below 0 are none, and cost nothing worse than a strange name.
  const std::string strange = mat_file(mat_array(4, 1, 2, "strange", mat_element(3, raw(std::vector<std::int16_t>{-27104, 'b'}))));
  EXPECT_TRUE(read_mat_variable(bytes(strange), "strange", "x.mat")->text.ends_with("b"));
  EXPECT_FALSE(read_mat_variable(bytes(file), "other", "x.mat"));
  EXPECT_EQ(read_mat_variable(bytes(file), "sparse", "x.mat")->kind, MatValue::Kind::kOther);
}

TEST(MatFile, SaysWhyAFileIsOfNoUse) {
  const auto why = [](std::string file) { return io_error([&] { read_mat_variable(std::as_bytes(std::span(file)), "names", "x.mat"); }); };
  std::string newer = mat_file(""), foreign = mat_file("");
  newer[125] = 2;
  std::swap(foreign[126], foreign[127]);
  EXPECT_THAT(why(newer), HasSubstr("x.mat: is a .mat file of version 7.3, and version 5 is read; save it with -v7"));
  EXPECT_THAT(why(foreign), HasSubstr("big-endian"));
  EXPECT_THAT(why("short"), HasSubstr("too short"));
  EXPECT_THAT(why(mat_file(mat_array(1, 1 << 30, 1 << 30, "names", ""))), HasSubstr("dimensions of an array are too large"));
  EXPECT_THAT(why(mat_file(mat_array(1, 1, 1 << 20, "names", ""))), HasSubstr("1048576 arrays are announced"));
  EXPECT_THAT(why(mat_file(mat_array(6, 1, 3, "names", mat_element(9, raw(std::vector<double>{1, 2}))))),
              HasSubstr("3 elements has 2 values"));
  EXPECT_THAT(why(mat_file(mat_array(2, 1, 1, "names", mat_double(1)))), HasSubstr("the length of field names are of type 14"));
  std::string deep = mat_double(1);
  for (int i = 0; i < 20; ++i) deep = mat_cell(i == 19 ? "names" : "", {deep});
  EXPECT_THAT(why(mat_file(deep)), HasSubstr("too deep"));
  EXPECT_THAT(why(mat_file(mat_packed(std::string(70 << 20, '\0')))), HasSubstr("larger than any of these files has"));
  std::string cut = mat_file(mat_packed(mat_cell("names", {mat_text("Audi")})));
  cut[cut.size() - 20] ^= 0x55;
  EXPECT_THAT(why(cut), HasSubstr("cannot be unpacked"));
}

}  // namespace
}  // namespace smartmine
