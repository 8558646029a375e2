# Objects in a hash, regular expressions and a sort, as in a report over a log.
Entry = Struct.new(:word, :count, :places)
index = {}
File.foreach('text.txt').with_index do |line, at|
  break if at >= 4000
  line.scan(/[a-z]+/) do |word|
    entry = (index[word] ||= Entry.new(word, 0, []))
    entry.count += 1
    entry.places << at
  end
end
top = index.values.sort_by { |entry| [-entry.count, entry.word] }.first(10)
top.each { |entry| puts "#{entry.word} #{entry.count} #{entry.places.uniq.size}" }
puts index.values.group_by { |entry| entry.word.size }.map { |size, all| [size, all.sum(&:count)] }.inspect
