# Prints a table of 600 houses with prices, for docs/training.md. usage: awk -f houses.awk >houses.csv
BEGIN {
    srand(1)
    split("north south oldtown", districts)
    split("0 20 70", worth)
    print "id,rooms,area,district,age,price"
    for (i = 1; i <= 600; i++) {
        rooms = 1 + int(6 * rand()); d = 1 + int(3 * rand()); age = int(90 * rand())
        area = 18 * rooms + 30 * rand()
        printf "h%d,%d,%.1f,%s,%d,%.1f\n", i, rooms, area, districts[d], age, 2.1 * area + worth[d] - 0.6 * age + 20 * rand()
    }
}
