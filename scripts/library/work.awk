# An inverted index: in which lines each word stands, and the words by their number of lines.
{
  for (i = 1; i <= NF; i++) {
    word = tolower($i); gsub(/[^a-z]/, "", word)
    if (seen[word] != NR) { seen[word] = NR; lines[word] = lines[word] " " NR; count[word]++ }
  }
}
END {
  n = asorti(count, order, "@val_num_desc")
  for (i = 1; i <= 20; i++) print order[i], count[order[i]], length(lines[order[i]])
}
